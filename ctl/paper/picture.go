package paper

// This file draws pictures, and writes them into files as SVG or PNG.

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"path/filepath"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/funet/funet/ctl/output"
)

// Dimensions in points of 1/72 inch.
const (
	margin     = 14
	panelTitle = 20
	legendGap  = 28 // between legends that stand side by side
	panelGap   = 18
	pictureDPI = 144
)

// Colours of Okabe and Ito's palette, which colour-blind readers can tell apart, and greys.
var (
	inkBlue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	inkOrange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	inkGreen  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	inkDark   = color.RGBA{0x5b, 0x5b, 0x5b, 0xff}
	inkGrid   = color.RGBA{0xde, 0xde, 0xde, 0xff}
)

// dots are the dashes of a dotted line.
var dots = []vg.Length{1, 3}

// picture is a drawing: a title, and panels side by side.
type picture struct {
	title         string
	width, height vg.Length
	head          vg.Length // of the title
	panels        []*panel
}

// panel is a title, legends, and axes with all that is drawn between them. The legends have a place
// of their own, so they cover nothing.
type panel struct {
	*plot.Plot
	title        string
	legends      []plot.Legend // side by side
	legendAt     vg.Length     // of the first; negative: the legends stand in the middle
	legendHeight vg.Length
	below        vg.Length                 // of after's texts
	after        func(c, area draw.Canvas) // writes texts below the area of the axes; nil: none
	labels       labels                    // drawn if they are added to the plot
	err          error                     // of parts that could not be made
}

// newPanel returns a panel with a grid.
func newPanel(vertical color.Color) *panel {
	p := &panel{Plot: plot.New()}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = vertical, inkGrid
	p.Add(grid)
	return p
}

// line adds a line through points.
func (p *panel) line(ink color.Color, width vg.Length, dashes []vg.Length, at ...plotter.XY) *plotter.Line {
	l, err := plotter.NewLine(plotter.XYs(at))
	if err != nil {
		p.err = errors.Join(p.err, err)
		return &plotter.Line{}
	}
	l.Color, l.Width, l.Dashes = ink, width, dashes
	p.Add(l)
	p.labels.lines = append(p.labels.lines, at)
	return l
}

// marks adds glyphs at points.
func (p *panel) marks(ink color.Color, radius vg.Length, shape draw.GlyphDrawer, at ...plotter.XY) *plotter.Scatter {
	s, err := plotter.NewScatter(plotter.XYs(at))
	if err != nil {
		p.err = errors.Join(p.err, err)
		return &plotter.Scatter{}
	}
	s.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: radius, Shape: shape}
	p.Add(s)
	p.labels.curves = append(p.labels.curves, at)
	return s
}

// fonts sets the sizes of ticks and names of the axes.
func (p *panel) fonts(tick, name vg.Length) {
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font, a.Label.TextStyle.Font, a.Padding = sans(tick), sans(name), 0
	}
}

// newLegend returns a legend whose lines have letters of a size.
func newLegend(size, thumbnail vg.Length) plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left, l.ThumbnailWidth, l.TextStyle.Font = true, true, thumbnail, sans(size)
	return l
}

// ticks returns numbered marks at places of an axis.
func ticks(at ...float64) (t plot.ConstantTicks) {
	for _, v := range at {
		t = append(t, plot.Tick{Value: v, Label: fmt.Sprint(v)})
	}
	return t
}

// sans returns the typeface of all text in pictures.
func sans(size vg.Length) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

// words returns the style of text whose upper edge is at its place.
func words(size vg.Length, align text.XAlignment, ink color.Color) text.Style {
	return text.Style{Font: sans(size), XAlign: align, YAlign: draw.YTop, Color: ink, Handler: plot.DefaultTextHandler}
}

// heading writes a title at the upper edge.
func heading(c draw.Canvas, size vg.Length, title string) {
	s := words(size, draw.XCenter, nil)
	s.Font.Weight = xfont.WeightBold
	c.FillText(s, vg.Point{X: c.Center().X, Y: c.Max.Y}, title)
}

// draw lays the picture out from top to bottom.
func (p *picture) draw(c draw.Canvas) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	heading(c, 15, p.title)
	c.Max.Y -= p.head
	width := (c.Max.X - c.Min.X - vg.Length(len(p.panels)-1)*panelGap) / vg.Length(len(p.panels))
	for i, x := range p.panels {
		if x.err != nil {
			return fmt.Errorf("drawing %s: %w", p.title, x.err)
		}
		cell := c
		cell.Min.X += vg.Length(i) * (width + panelGap)
		cell.Max.X = cell.Min.X + width
		x.draw(cell)
	}
	return nil
}

// draw draws the panel.
func (p *panel) draw(c draw.Canvas) {
	if p.title != "" {
		heading(c, 11, p.title)
		c.Max.Y -= panelTitle
	}
	left := p.legendAt
	if left < 0 {
		width := vg.Length(len(p.legends)-1) * legendGap
		for _, l := range p.legends {
			width += l.Rectangle(c).Size().X
		}
		left = (c.Max.X - c.Min.X - width) / 2
	}
	cell := draw.Crop(c, left, 0, 0, 0)
	for _, l := range p.legends {
		l.Draw(cell)
		cell.Min.X += l.Rectangle(c).Size().X + legendGap
	}
	c.Max.Y -= p.legendHeight
	area := draw.Crop(c, 0, 0, p.below, 0)
	p.Draw(area)
	if p.after != nil {
		p.after(c, area)
	}
}

// pictures are the files for a picture.
type pictures struct {
	output.Files
	names []string
	to    []io.Writer
}

// openPictures opens files by their names. It returns an error for a name that cannot be written
// to. The caller defers Discard.
func openPictures(names []string) (*pictures, error) {
	p := &pictures{names: names}
	for _, name := range names {
		var w io.Writer
		err := errors.New("pictures are SVG or PNG; use a name that ends in .svg or .png")
		if kind := filepath.Ext(name); kind == ".svg" || kind == ".png" {
			w, err = p.Create(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no folder %s; make it first", filepath.Dir(name))
		}
		if err != nil {
			p.Discard()
			return nil, fmt.Errorf("--plot %s: %w", name, err)
		}
		p.to = append(p.to, w)
	}
	return p, nil
}

// write writes a picture into each file.
func (p *pictures) write(d *picture) error {
	for i, name := range p.names {
		if err := d.write(filepath.Ext(name), p.to[i]); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return p.Commit()
}

// write writes the picture as ".svg", or as ".png" with two pixels a point.
func (p *picture) write(kind string, w io.Writer) error {
	var c vg.CanvasWriterTo = vgsvg.New(p.width, p.height)
	if kind == ".png" {
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(pictureDPI))}
	}
	if err := p.draw(draw.New(c)); err != nil {
		return err
	}
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return err
	}
	// Where Liberation Sans is missing one of these has letters of the same widths.
	_, err := w.Write(bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}
