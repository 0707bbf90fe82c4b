package keyfile

import (
	"sync"

	"github.com/funet/funet/uspace/engine/link"
)

// Ring holds the keys that a process has read. It reads each file once: a file's key stays the
// same, even if the file changes later. Any goroutine may use it. The zero value is an empty Ring.
type Ring struct {
	mu   sync.Mutex
	keys map[string]*link.Key
}

// Load returns the key of a file, or nil for "". Errors are those of the function Load.
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
