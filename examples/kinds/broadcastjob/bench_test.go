package broadcastjob_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// BenchmarkNodes runs a job on 1,000 simulated Nodes with a real API server, on a fifth of the Nodes at a time. The
// results are the duration in seconds, the number of writes per Pod, and the largest heap. Use -benchtime=1x.
func BenchmarkNodes(b *testing.B) {
	const nodes = 1000
	for range b.N {
		c := idle(b, 0)
		fill(c, nodes)
		peak := mostHeap(b)
		stop := c.run()
		since, begin := controllertest.End(b, c.cp.AuditLog()), time.Now()
		c.job("all", ends, func(j *v1beta1.BroadcastJob) { j.Spec.Parallelism = ptr.To(intstr.FromString("20%")) })
		controlplanetest.Eventually(b, 10*time.Minute, func(ctx context.Context) error {
			j, err := c.get(ctx, "all")
			if err == nil && (j.Status.Phase != v1beta1.PhaseCompleted || j.Status.Succeeded != nodes) {
				err = fmt.Errorf("%+v", j.Status)
			}
			return err
		})
		took, writes := time.Since(begin), c.writes(since)
		var counts []string
		for _, key := range slices.Sorted(maps.Keys(writes)) {
			counts = append(counts, fmt.Sprintf("%d %s (%.3f a Pod)", writes[key], key, float64(writes[key])/nodes))
		}
		b.Logf("%.1f s; %s; heap at most %.1f MiB", took.Seconds(), strings.Join(counts, ", "), float64(peak())/(1<<20))
		stop()
	}
}

// fill adds Nodes, up to 16 at the same time.
func fill(c *cluster, n int) {
	var group sync.WaitGroup
	places := make(chan struct{}, 16)
	for i := range n {
		places <- struct{}{}
		group.Go(func() {
			node := controlplane.NewNode(fmt.Sprintf("%s-n%d", c.namespace, i))
			node.Labels[owned] = c.namespace
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: owned, Value: c.namespace, Effect: corev1.TaintEffectNoSchedule})
			if err := c.Create(c.t.Context(), node); err != nil {
				c.t.Error(err)
			}
			<-places
		})
	}
	group.Wait()
}

// mostHeap measures the heap at intervals, and returns the largest size.
func mostHeap(b *testing.B) func() uint64 {
	var most atomic.Uint64
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				most.Store(max(most.Load(), stats.HeapInuse))
			}
		}
	})
	stop := sync.OnceFunc(func() { close(done); group.Wait() })
	b.Cleanup(stop)
	return func() uint64 { stop(); return most.Load() }
}
