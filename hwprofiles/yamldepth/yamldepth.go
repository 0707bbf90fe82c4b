// Package yamldepth finds YAML that is nested too deeply to be parsed: the parser descends
// once for each level, and a stack that overflows cannot be recovered from. Readers of files
// from elsewhere ask it before they parse.
package yamldepth

// Exceeds returns the place, counted from 1, where more than most brackets are open or a
// line begins with more than most signs of lists and keys ("- - - x" is a list in a list in
// a list), or 0 if there is none. Brackets in comments and strings count too: to tell them
// apart is the parser's work, and no real file leaves that many open. Any goroutine may
// call it, with any bytes.
func Exceeds(data []byte, most int) (line, column int) {
	open, begun, leading := 0, 0, true
	line = 1
	for _, c := range data {
		column++
		switch c {
		case '\n', '\r':
			if c == '\n' {
				line++
			}
			column, begun, leading = 0, 0, true
			continue
		case '-', '?', ':':
			if leading {
				begun++
			}
		case ' ', '\t':
		case '[', '{':
			open++
			leading = false
		case ']', '}':
			open = max(0, open-1)
			leading = false
		default:
			leading = false
		}
		if open > most || begun > most {
			return line, column
		}
	}
	return 0, 0
}
