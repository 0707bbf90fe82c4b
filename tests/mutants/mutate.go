package main

// This file makes a mutant: a copy of one source file with one snippet replaced. It also makes the
// overlay, which gives the compiler the copy instead of the original.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutation is one way to break the engine.
type mutation struct {
	name     string
	file     string  // relative to the engine's folder
	old, new string  // the snippet, and its replacement
	checks   []check // each must notice the mutation
}

const (
	engineFolder = "uspace/engine"
	linkFolder   = engineFolder + "/link"
	// These are the folders of other packages. Mutations name files there relative to engineFolder.
	libraryFolder = "uspace/am"
	ratsFolder    = "uspace/rats"
	rmaFolder     = "uspace/rma"
	virtniFolder  = "uspace/virtni"
	abiFolder     = "uspace/funi"
	boardFolder   = "uspace/scoreboard"
	wiringFolder  = "uspace/topology"
	simFolder     = "uspace/sim"
	scaleFolder   = "uspace/sim/scale"
	turnsFolder   = "uspace/turns"
	bundleFolder  = "uspace/port/bundle"
	tableFolder   = "ctl/registry"
	waitFolder    = "uspace/wait"
)

var (
	// errSnippet reports a source in which the snippet is not there exactly once.
	errSnippet = errors.New("the engine has changed; write the mutation anew")
	// errSame reports a mutation that changes nothing.
	errSame = errors.New("the mutation replaces a snippet by itself")
)

// replace returns the source with the only occurrence of old replaced by new. It returns errSnippet
// unless old is there exactly once.
func replace(source, old, new string) (string, error) {
	if old == new {
		return "", errSame
	}
	if n := strings.Count(source, old); old == "" || n != 1 {
		return "", fmt.Errorf("snippet %q is there %d times, not once: %w", old, n, errSnippet)
	}
	return strings.Replace(source, old, new, 1), nil
}

// mutate writes the mutant of a source file below root into folder. It returns the path of the
// overlay file for the go command.
func (m *mutation) mutate(root, folder string) (overlay string, err error) {
	original := filepath.Join(root, engineFolder, m.file)
	source, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("reading what is to be mutated: %w", err)
	}
	text, err := replace(string(source), m.old, m.new)
	if err != nil {
		return "", fmt.Errorf("%s/%s: %w", engineFolder, m.file, err)
	}
	mutant := filepath.Join(folder, filepath.Base(m.file))
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutant}})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	overlay = filepath.Join(folder, "overlay.json")
	if err := errors.Join(os.WriteFile(mutant, []byte(text), 0o644),
		os.WriteFile(overlay, replaced, 0o644)); err != nil {
		return "", fmt.Errorf("writing the mutant: %w", err)
	}
	return overlay, nil
}
