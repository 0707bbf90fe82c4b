// This file has the fields of a mapping: keys, and functions that read their values into variables.

package strictyaml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Field is a key that a mapping may have, with the function that reads its value.
type Field struct {
	key  string
	read func(*Node) error
}

// Fields reads a mapping that may have the fields, each once, in the order of the file. It
// returns the first error.
func (n *Node) Fields(fields ...Field) error {
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		names = append(names, f.key)
	}
	values, err := n.values(names)
	if err != nil {
		return err
	}
	for _, v := range values {
		if err := fields[slices.Index(names, v.key)].read(v); err != nil {
			return err
		}
	}
	return nil
}

// Value returns a field whose value read understands.
func Value(key string, read func(*Node) error) Field { return Field{key, read} }

// Each returns a field with a list, which must not be empty. It calls read with each value.
func Each(key string, read func(*Node) error) Field {
	return Field{key, func(n *Node) error {
		list, ok := n.List()
		if !ok || len(list) == 0 {
			return n.Errorf("%s is %s, want a list in brackets with at least one value, or leave the key out",
				key, n.What())
		}
		for _, v := range list {
			if err := read(v); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Text returns a field with a text that is not empty.
func Text(key string, to *string) Field {
	return Field{key, func(n *Node) (err error) {
		if *to, err = n.Text(); err == nil && *to == "" {
			err = n.Errorf("%s is empty; leave the key out for the default", key)
		}
		return err
	}}
}

// Bool returns a field that is true or false.
func Bool(key string, to *bool) Field {
	return Field{key, func(n *Node) error {
		v, ok := n.Bool()
		if !ok {
			return n.Errorf("%s is %s, want true or false", key, n.What())
		}
		*to = v
		return nil
	}}
}

// Number returns a field with a decimal number from low to high, both included.
func Number[T Integer](key string, to *T, low, high T) Field {
	return Field{key, func(n *Node) (err error) {
		*to, err = Int(n, low, high)
		return err
	}}
}

// Integer has the kinds of numbers in formats.
type Integer interface{ ~int | ~uint16 }

// Int reads a decimal number from low to high, both included; it returns 0 with an error.
func Int[T Integer](n *Node, low, high T) (T, error) {
	s, err := n.Text()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < int64(low) || v > int64(high) {
		return 0, n.Errorf("%s is %q, want a number from %d to %d", n.key, clip(s), low, high)
	}
	return T(v), nil
}

// Duration returns a field with a time longer than zero.
func Duration(key string, to *time.Duration) Field {
	return Field{key, func(n *Node) error {
		s, err := n.Text()
		if err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return n.Errorf("%s is %q, want a time such as 500ms or 5s", key, clip(s))
		}
		*to = d
		return nil
	}}
}

// Choice returns a field with the name of one of several values, as its method String returns it.
func Choice[T fmt.Stringer](key string, to *T, of ...T) Field {
	return Field{key, func(n *Node) error { return OneOf(n, to, of...) }}
}

// OneOf reads the name of one of several values.
func OneOf[T fmt.Stringer](n *Node, to *T, of ...T) error {
	s, err := n.Text()
	if err != nil {
		return err
	}
	var names []string
	for _, v := range of {
		if s == v.String() {
			*to = v
			return nil
		}
		names = append(names, v.String())
	}
	return n.Errorf("%s is %q, want %s", n.key, clip(s), strings.Join(names, ", "))
}
