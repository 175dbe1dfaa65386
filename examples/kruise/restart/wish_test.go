package restart_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
)

func TestRead(t *testing.T) {
	const time1 = "2026-03-01T12:00:00Z"
	for _, c := range []struct {
		name, value string
		containers  []string
		problem     string
	}{
		{"all containers", time1, nil, ""},
		{"some containers", time1 + "  app log\n", []string{"app", "log"}, ""},
		{"another zone", "2026-03-01T13:00:00+01:00", nil, ""},
		{"empty", " ", nil, "is empty"},
		{"no time", "now", nil, "is no RFC 3339 time"},
		{"a date", "2026-03-01", nil, "is no RFC 3339 time"},
		{"a name that no container has", time1 + " App", nil, "is no name of a container"},
		{"twice", time1 + " app app", nil, "stands there twice"},
		{"too many", time1 + strings.Repeat(" app", 101), nil, "names more than 100 containers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var read judge.Reading
			wish := restart.Read(&read, map[string]string{apps.AnnotationRestartContainers: c.value})
			if c.problem != "" {
				if len(read.Problems) != 1 || !strings.Contains(read.Problems.Reasons().String(), c.problem) {
					t.Errorf("problems %v", read.Problems.Reasons())
				}
				return
			}
			if len(read.Problems) > 0 || !wish.At.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) || wish.String() != c.value {
				t.Errorf("%+v, problems %v", wish, read.Problems.Reasons())
			}
			if diff := cmp.Diff(c.containers, append([]string(nil), wish.Containers...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if wish := restart.Read(&judge.Reading{}, map[string]string{"other": "now"}); wish != nil || wish.String() != "" {
		t.Errorf("%+v without an annotation", wish)
	}
}
