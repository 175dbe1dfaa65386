package containerrecreaterequest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestResolve(t *testing.T) {
	type spec = v1beta1.ContainerRecreateRequestSpec
	type strategy = v1beta1.ContainerRecreateRequestStrategy
	containers := []v1beta1.ContainerRecreateRequestContainer{{Name: "log"}, {Name: "app"}}
	for _, tc := range []struct {
		name string
		edit func(*spec)
		want settings
	}{
		{"what is unset stays unset", func(*spec) {}, settings{minStarted: new(time.Duration)}},
		{"everything", func(s *spec) {
			s.ActiveDeadlineSeconds, s.TTLSecondsAfterFinished = new(int64(60)), new(int32(0))
			s.Strategy = &strategy{
				FailurePolicy: "Ignore", OrderedRecreate: true, ForceRecreate: true, MinStartedSeconds: 3,
				TerminationGracePeriodSeconds: new(int64(1)), UnreadyGracePeriodSeconds: new(int64(2)),
			}
		}, settings{
			ordered: true, force: true, ignoresFailures: true, deadline: new(time.Minute), ttl: new(time.Duration),
			minStarted: new(3 * time.Second), grace: new(time.Second), unready: new(2 * time.Second),
		}},
		{"the policy of the defaults, and a deadline beyond all times", func(s *spec) {
			s.ActiveDeadlineSeconds, s.Strategy = new(int64(math.MaxInt64)), &strategy{FailurePolicy: "Fail"}
		}, settings{minStarted: new(time.Duration), deadline: new(9223372036 * time.Second)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &spec{PodName: "web-0", Containers: containers}
			tc.edit(in)
			tc.want.pod, tc.want.containers = "web-0", containers
			got, problems, warnings := resolve(in)
			if len(problems)+len(warnings) > 0 {
				t.Errorf("problems %v, warnings %v", problems.Reasons(), warnings.Reasons())
			}
			if diff := cmp.Diff(&tc.want, got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
