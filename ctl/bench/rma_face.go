package bench

// This file is `funet bench rma --face`: the operations through package virtni, whose processes
// issue by triggers, in the same rounds.

import "github.com/funet/funet/ctl/program"

// faceOf is the name of a contender through the face.
func faceOf(name string) string { return "virtni " + name }

// faceOps are the measurements that both have.
func faceOps() (names []string) {
	for _, op := range rmaOps {
		names = append(names, op.name)
	}
	return append(names, "put_1m", "get_1m", "put8_rate")
}

// enterFace enters each measurement once more, through the face.
func (o *rma) enterFace(m *match, trips, blocks, messages int) {
	of := func(name, do string, count int, figure func([]node) float64) {
		m.funet(faceOf(name), program.RMAProgram, program.RMAOptions{Do: do, Face: program.FaceVirtni, Block: rmaBlock,
			Count: count, WarmUp: warmUp}, figure)
	}
	for _, op := range rmaOps {
		of(op.name, op.do, trips, p50)
	}
	of("put_1m", program.RMABulk, blocks, goodput)
	of("get_1m", program.RMAGets, blocks, goodput)
	of("put8_rate", program.RMARate, messages, func(n []node) float64 { return n[0].Rate })
}

// faceResult is a measurement through the face. Cost is its time by that without the face, or the
// other way round of a rate or a goodput: the median of the rounds' ratios.
type faceResult struct {
	Op     string    `json:"op"`
	Figure float64   `json:"figure"` // us, Gbit/s, or a second
	Cost   float64   `json:"cost"`
	Rounds []float64 `json:"rounds_cost"`
}

// reportFace reports the measurements through the face.
func (o *rma) reportFace(m *match, r *report) {
	var all []faceResult
	r.print("%-34s %9s %9s  %s\n", "through "+o.face, "figure", "x rma", "by round")
	for i, name := range faceOps() {
		a, b := faceOf(name), name
		if i >= len(rmaOps) { // more is better
			a, b = b, a
		}
		f := faceResult{Op: name, Figure: m.median(faceOf(name)), Cost: m.ratio(a, b), Rounds: m.ratios(a, b)}
		all = append(all, f)
		r.print("%-34s %9.2f %9.3f  %s\n", f.Op, f.Figure, f.Cost, ratios3(f.Rounds))
	}
	r.with(figure{"face", o.face}, figure{"face_ops", all})
}
