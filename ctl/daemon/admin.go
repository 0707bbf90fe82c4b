package daemon

import (
	"fmt"

	"github.com/funet/funet/uspace/attach"
)

// administer carries out KindAdmin.
func (c *connection) administer(message []byte) error {
	return fmt.Errorf("%w", attach.ErrCommand)
}
