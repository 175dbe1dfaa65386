package puller

import (
	"context"
	"errors"
	"fmt"

	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// pull pulls an image: with each credential until a pull succeeds, or without a credential if there is none. The time
// limit covers all tries together.
func (p *Puller) pull(ctx context.Context, r *run) (id string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("the attempt took longer than %s", r.limit))
	defer cancel()
	keyring, problem := p.keyring.For(ctx, r.want)
	credentials := keyring.For(pullsecret.Image{Host: r.want.Image.Registry(), Path: r.want.Image.Path()})
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
		if failures = append(failures, redacted(keyring, credentials[i].Source, err)); ctx.Err() != nil {
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

// redacted returns an error without the values of credentials, because registries may repeat these values in their
// errors. The error does not wrap the cause, because the text of the cause may contain the values. Only the mark of
// reason.Final is kept.
func redacted(keyring pullsecret.Keyring, source reason.Object, err error) error {
	out := errors.New(source.String() + ": " + keyring.Redact(err.Error()))
	if reason.IsFinal(err) {
		return reason.Final(out)
	}
	return out
}
