package daemon

type sharing struct{}

func (s *sharing) turn(l *loop) int64 { return 0 }
