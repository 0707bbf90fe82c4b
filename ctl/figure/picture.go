package figure

// This file writes pictures into files, as SVG or PNG. The pictures of Figures 6.2 to 6.5 have
// title, legend and plot. Below the plot are the thesis's claims, each with whether it holds.

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/funet/funet/ctl/output"
)

// The dimensions of the picture, in points of 1/72 inch.
const (
	pictureWidth, pictureHeight = 640, 520
	pictureMargin               = 14
	titleHeight, legendHeight   = 30, 24
	legendGap                   = 28
	nameHeight                  = 29 // of the name of x, and the space around it
	claimHeight                 = 16 // of a line of claims
	pictureDPI                  = 144
)

// Drawing is a picture with its width and height, in points of 1/72 inch, and the function that
// draws it.
type Drawing struct {
	Width, Height vg.Length
	Draw          func(draw.Canvas) error
}

// drawing returns the drawing of a figure.
func (r *result) drawing() Drawing { return Drawing{pictureWidth, pictureHeight, r.draw} }

// pictureFormats has the writer of each format, by the ending of file names.
var pictureFormats = map[string]func(Drawing, io.Writer) error{
	".svg": Drawing.writeSVG,
	".png": Drawing.writePNG,
}

// Pictures are the files for a drawing.
type Pictures struct {
	output.Files
	names []string
	to    []io.Writer
}

// OpenPictures opens the files that flags --plot name, before a minute of simulation. It returns an
// error for a name that cannot be written to. The caller defers Discard.
func OpenPictures(names []string) (*Pictures, error) {
	p := &Pictures{names: names}
	for _, name := range names {
		if pictureFormats[filepath.Ext(name)] == nil {
			p.Discard()
			return nil, fmt.Errorf("--plot %s: pictures are SVG or PNG; use a name that ends in .svg or .png", name)
		}
		w, err := p.Create(name)
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

// Write writes a drawing into each file.
func (p *Pictures) Write(d Drawing) error {
	for i, name := range p.names {
		if err := pictureFormats[filepath.Ext(name)](d, p.to[i]); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return p.Commit()
}

// writeSVG writes the picture as SVG.
func (d Drawing) writeSVG(w io.Writer) error {
	c := vgsvg.New(d.Width, d.Height)
	if err := d.Draw(draw.New(c)); err != nil {
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

// writePNG writes the picture as PNG, with two pixels a point.
func (d Drawing) writePNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(d.Width, d.Height), vgimg.UseDPI(pictureDPI))
	if err := d.Draw(draw.New(c)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// draw lays the picture out from top to bottom. The legend has a place of its own, so it covers
// nothing.
func (r *result) draw(c draw.Canvas) error {
	p, legend, err := r.newPlot()
	if err != nil {
		return err
	}
	c.SetColor(p.BackgroundColor)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, pictureMargin, -pictureMargin, pictureMargin, -pictureMargin)

	title := text.Style{Font: Sans(15), XAlign: draw.XCenter, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
	title.Font.Weight = font.WeightBold
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y}, fmt.Sprintf("Figure %s: %s", r.Figure, r.title()))
	c.Max.Y -= titleHeight

	width := vg.Length(len(legend)-1) * legendGap
	for _, l := range legend {
		width += l.Rectangle(c).Size().X
	}
	cell := draw.Crop(c, (c.Max.X-c.Min.X-width)/2, 0, 0, 0)
	for _, l := range legend {
		l.Draw(cell)
		cell.Min.X += l.Rectangle(c).Size().X + legendGap
	}
	c.Max.Y -= legendHeight

	lines := r.claimLines(c.Max.X - c.Min.X)
	claims := vg.Length(len(lines)) * claimHeight
	area := draw.Crop(c, 0, 0, claims+nameHeight, 0)
	// The plot itself would keep room for the name of x about the middle of a linear axis.
	name, style := p.X.Label.Text, p.X.Label.TextStyle
	p.X.Label.Text = ""
	p.Draw(area)
	style.YAlign = draw.YTop
	axes := p.DataCanvas(area)
	c.FillText(style, vg.Point{X: axes.Center().X, Y: area.Min.Y - 3}, name)

	for i, l := range lines {
		c.FillText(l.style, vg.Point{X: c.Min.X, Y: c.Min.Y + claims - vg.Length(i)*claimHeight}, l.text)
	}
	return nil
}

// claimLine is a line of text below the picture.
type claimLine struct {
	text  string
	style text.Style
}

// claimLines returns the claims in lines of a width. A claim's continuation lines are indented.
func (r *result) claimLines(width vg.Length) (lines []claimLine) {
	for _, claim := range r.Claims {
		style := text.Style{Font: Sans(10.5), YAlign: draw.YTop, Handler: plot.DefaultTextHandler, Color: inkBroken}
		switch {
		case claim.Holds == nil:
			style.Color = color.Black
		case *claim.Holds:
			style.Color = inkClaim
		}
		line := "Thesis:"
		for _, word := range strings.Fields(fmt.Sprintf("%s: %s (%s)", claim.Text, claim.verdict(), claim.Shows)) {
			if style.Width(line+" "+word) > width {
				lines = append(lines, claimLine{line, style})
				line = "       "
			}
			line += " " + word
		}
		lines = append(lines, claimLine{line, style})
	}
	return lines
}

// title returns the title of the figure.
func (r *result) title() string {
	run := figures[r.Figure].runs[0]
	if r.utilisation() {
		return fmt.Sprintf("Utilisation of %d processors multiplying matrices, N = %d", run.nodes, run.n)
	}
	return fmt.Sprintf("Speed-up of multiplying %d × %[1]d matrices", run.n)
}
