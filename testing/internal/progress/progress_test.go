package progress_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/internal/progress"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	fail := errors.New("broken")
	p := progress.New(&out)
	if err := p.During("building etcd (1/2)", func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := p.During("building kwok (2/2)", func() error { return fail }); !errors.Is(err, fail) {
		t.Errorf("error %v, want %v", err, fail)
	}
	const want = "building etcd (1/2) ...\nbuilding etcd (1/2) done in 0 s\nbuilding kwok (2/2) ...\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}
