package launch

import "context"

func (o *Options) reachRemote(ctx context.Context) ([]host, error) { return nil, nil }
