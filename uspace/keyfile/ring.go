package keyfile

import (
	"sync"

	"github.com/funet/funet/uspace/engine/link"
)

// Ring is the keys that a process has read, each file once: whatever becomes of the file, and
// whatever the process may read later, its key stays the one that it was. Any goroutine may use it.
// The zero value has none.
type Ring struct {
	mu   sync.Mutex
	keys map[string]*link.Key
}

// Load returns the key of a file, nil for "". Errors: those of the function Load.
func (r *Ring) Load(path string) (*link.Key, error) {
	if path == "" {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[path]; k != nil {
		return k, nil
	}
	k, err := Load(path)
	if err != nil {
		return nil, err
	}
	if r.keys == nil {
		r.keys = map[string]*link.Key{}
	}
	r.keys[path] = k
	return k, nil
}
