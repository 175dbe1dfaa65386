package resourcedistribution_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
)

// BenchmarkNamespaces distributes a Secret to 1,000 namespaces with a real API server, in a cluster with 10,000 other
// Secrets of 4 KiB. The benchmark then changes the Secret, and starts a new process. The results are durations in
// seconds, numbers of requests, and the size of the controller's heap. Use -benchtime=1x.
func BenchmarkNamespaces(b *testing.B) {
	const namespaces, others = 1000, 10000
	for range b.N {
		c := idle(b)
		labels := map[string]string{"group": c.prefix}
		eachOf(namespaces, func(i int) {
			name := fmt.Sprintf("%s-%d", c.prefix, i)
			if err := c.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
				b.Error(err)
			}
		})
		eachOf(others, func(i int) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("other-%d", i)}, Data: map[string][]byte{"k": make([]byte, 4096)}}
			if err := c.Create(b.Context(), secret); err != nil {
				b.Error(err)
			}
		})
		empty, since := heap(), controllertest.End(b, c.cp.AuditLog())
		stop := c.run()
		measure := func(what string, do func()) {
			begin := time.Now()
			do()
			took := time.Since(begin)
			var requests []controllertest.Request
			requests, since = controllertest.Requests(b, c.cp.AuditLog(), since, "kruise-manager")
			tally := map[string]int{}
			for _, r := range requests {
				if r.Resource == "secrets" || strings.HasPrefix(r.Resource, "resourcedistributions") {
					tally[r.Verb+" "+r.Resource]++
				}
			}
			var counts []string
			for _, key := range slices.Sorted(maps.Keys(tally)) {
				counts = append(counts, fmt.Sprintf("%d %s", tally[key], key))
			}
			b.Logf("%s: %.1f s; %s", what, took.Seconds(), strings.Join(counts, ", "))
		}
		var obj *v1beta1.ResourceDistribution
		measure("created", func() {
			obj = c.distribute(resource{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "pull"}, "stringData": map[string]string{"token": "abc"}},
				v1beta1.ResourceDistributionTargets{NamespaceSelector: selects("group", c.prefix)})
			c.counts(obj, namespaces, namespaces)
		})
		measure("changed", func() {
			change(c, obj, func(o *v1beta1.ResourceDistribution) {
				o.Spec.Resource.Raw = []byte(strings.Replace(string(o.Spec.Resource.Raw), "abc", "def", 1))
			})
			c.counts(obj, namespaces, namespaces)
		})
		b.Logf("heap: %.1f MiB more than without the manager", float64(heap()-empty)/(1<<20))
		stop()
		measure("another process", func() {
			stop = c.run()
			change(c, obj, func(o *v1beta1.ResourceDistribution) { o.Spec.Targets.ExcludedNamespaces = list(c.prefix + "-0") })
			c.counts(obj, namespaces-1, namespaces-1)
		})
		stop()
	}
}

// heap returns the size of the used heap, in bytes.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// eachOf calls do for 0 to n-1, up to 16 calls at the same time.
func eachOf(n int, do func(int)) {
	var group sync.WaitGroup
	places := make(chan struct{}, 16)
	for i := range n {
		places <- struct{}{}
		group.Go(func() {
			do(i)
			<-places
		})
	}
	group.Wait()
}
