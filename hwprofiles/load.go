package hwprofiles

// This file finds profiles: among the embedded files, or by path.

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.yaml
var embedded embed.FS

// ErrUnknown is wrapped by Load's error about a name that no embedded profile has.
var ErrUnknown = errors.New("unknown profile")

// Names returns the names of the embedded profiles, in alphabetical order.
func Names() []string {
	files, _ := embedded.ReadDir(".") // the embedded folder can be read
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(names) // file names sort otherwise
	return names
}

// Load returns the embedded profile of a name. If the name has a '/' or ends in .yaml, it reads the
// file of that path instead. Errors about what a file says wrap ErrInvalid.
func Load(nameOrPath string) (*Profile, error) {
	if strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml") {
		return LoadFile(nameOrPath)
	}
	p, err := Embedded(nameOrPath)
	if errors.Is(err, ErrUnknown) {
		err = fmt.Errorf("%w, and files, whose names end in .yaml or have a '/'", err)
	}
	return p, err
}

// Embedded returns the embedded profile of a name, and never opens a file. Errors: ErrUnknown.
func Embedded(name string) (*Profile, error) {
	data, err := embedded.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w; there are %s", clip(name), ErrUnknown, strings.Join(Names(), ", "))
	}
	return Parse(name+".yaml", data)
}

// LoadFile reads the profile at path, whatever its name.
func LoadFile(path string) (*Profile, error) {
	data, err := format.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	return Parse(path, data)
}
