package bench

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// someOptions returns valid options. The path of the manager is the path of the test binary, because Validate
// requires an executable file.
func someOptions() Options {
	return NewOptions(os.Args[0], Workload{
		Name:   "thing",
		Object: func(Shape) client.Object { return nil },
		List:   func() client.ObjectList { return nil },
	})
}

func TestOptionsAreRefused(t *testing.T) {
	if err := someOptions().Validate(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"manager", func(o *Options) { o.Manager = "missing" }, `Manager "missing": no such file`},
		{"workload", func(o *Options) { o.Workload.Object = nil }, `Workload "thing": want its Name, Object and List`},
		{"change", func(o *Options) { o.Change = "colour" }, `Change "colour": want one of image, images, annotation, resources, env`},
		{"phase", func(o *Options) { o.Phases = []string{scaleUp, "nap"} }, `Phases "nap": want one of scale-up, in-place, recreate, slow-start, no-change, passes, scale-down`},
		{"slow start", func(o *Options) { o.Phases = []string{slowStart} }, "Phases slow-start: want SlowStart too"},
		{"pods", func(o *Options) { o.Pods = 0 }, "Pods 0: want 1 at least"},
		{"objects", func(o *Options) { o.Objects = 501 }, "Objects 501: want 1 to 500, the number of Pods"},
		{"nodes", func(o *Options) { o.Nodes = -1 }, "Nodes -1, Passes 100: want 0 or more Nodes"},
		{"nodes of daemons", func(o *Options) { o.Workload.PerNode, o.Nodes = true, 3 }, "Nodes 3, Pods 500, Objects 1: a "},
		{"passes", func(o *Options) { o.Passes = 0 }, "Nodes 0, Passes 0: want 0 or more Nodes and 1 or more passes"},
		{"time", func(o *Options) { o.NoChange = -time.Second }, "NoChange -1s: want no negative time"},
		{"maxUnavailable", func(o *Options) { o.MaxUnavailable = intstr.FromString("many") }, "MaxUnavailable"},
		{"nothing given", func(o *Options) { *o = Options{} }, `Manager "": no such file`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := someOptions()
			tt.change(&o)
			if err := o.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to say %q", err, tt.want)
			}
			if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run: error %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestNodesFollowPods(t *testing.T) {
	var got []int
	for _, pods := range []int{1, 5000, 5001, 10000} {
		got = append(got, Options{Pods: pods}.nodes())
	}
	if diff := cmp.Diff([]int{20, 20, 21, 40, 7}, append(got, Options{Pods: 1, Nodes: 7}.nodes())); diff != "" {
		t.Errorf("Nodes (-want +got):\n%s", diff)
	}
}

func TestSharesAddUp(t *testing.T) {
	var got []int
	for i := range 4 {
		got = append(got, share(10, i, 4))
	}
	if diff := cmp.Diff([]int{3, 3, 2, 2}, got); diff != "" {
		t.Errorf("10 Pods over 4 objects (-want +got):\n%s", diff)
	}
}
