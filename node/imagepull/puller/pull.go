package puller

import (
	"context"
	"errors"
	"fmt"
)

// pull pulls an image: with each credential until a pull succeeds, and without a credential if there is none. The limit
// covers all of these.
func (p *Puller) pull(ctx context.Context, r *run) (id string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("the attempt took longer than %s", r.limit))
	defer cancel()
	credentials, problem := p.keyring.For(ctx, r.want)
	if len(credentials) == 0 {
		if id, err = p.runtime.Pull(ctx, r.want, nil); err == nil {
			return id, nil
		}
		return "", errors.Join(late(ctx), problem, err)
	}
	failures := []error{problem}
	for i := range credentials {
		if id, err = p.runtime.Pull(ctx, r.want, &credentials[i]); err == nil {
			return id, nil
		}
		if failures = append(failures, credentials[i].redacted(err)); ctx.Err() != nil {
			break
		}
	}
	return "", errors.Join(append(failures, late(ctx))...)
}

// late returns an error if the limit has passed, and otherwise nil.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return nil
}
