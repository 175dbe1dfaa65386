package imagepulljob_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/podreadiness"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/rehearsal"
)

// BenchmarkSlowImages prints how long the rollout of 100 Pods on as many Nodes takes, in simulated seconds, if the
// new image takes 20 seconds to pull: without pre-download, and with several values of the parallelism. The controllers
// are the real ones; scheduler, kubelets and agents are simulated.
func BenchmarkSlowImages(b *testing.B) {
	for _, bc := range []struct {
		name        string
		parallelism int // 0 means that images are not pulled ahead
		pause       bool
	}{
		{"at once/without", 0, false},
		{"at once/parallelism 1", 1, false},
		{"at once/parallelism 10", 10, false},
		{"at once/parallelism 100", 100, false},
		{"after a canary of 10 and a pause/without", 0, true},
		{"after a canary of 10 and a pause/parallelism 1", 1, true},
		{"after a canary of 10 and a pause/parallelism 10", 10, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				took = newSlow(b).rollout(bc.parallelism, bc.pause)
			}
			b.ReportMetric(took.Seconds(), "s/rollout")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const slowPods, slowPull = 100, 20 * time.Second

// slow is a simulated cluster in which images take long to pull.
type slow struct {
	b      *testing.B
	scheme *apiruntime.Scheme
	clock  *rehearsal.Clock
	server *faultapi.Server
	// pulled is when each Node has, or will have, the new image.
	pulled map[string]time.Time
}

func newSlow(b *testing.B) *slow {
	s := &slow{b: b, scheme: apiruntime.NewScheme(), clock: rehearsal.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), pulled: map[string]time.Time{}}
	s.must(clientgoscheme.AddToScheme(s.scheme))
	s.must(v1beta1.AddToScheme(s.scheme))
	var err error
	s.server, err = faultapi.New(s.scheme, s.clock.Now, append(workloads.Kinds(), &v1beta1.ContainerRecreateRequest{}, &v1beta1.ImagePullJob{}, faultapi.ClusterWide(&v1beta1.NodeImage{}), &corev1.Node{}, &corev1.Secret{})...)
	s.must(err)
	for i := range slowPods {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%03d", i), UID: types.UID(fmt.Sprintf("node-%03d", i))}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now().Add(-time.Hour))}}
		s.must(s.server.Load(node))
	}
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.Replicas, set.Spec.Selector = new(int32(slowPods)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "reg.test/app:v1"}}
	set.Spec.UpdateStrategy.Type = "RollingUpdate"
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: "InPlaceIfPossible", MaxUnavailable: new(intstr.FromString("10%"))}
	s.must(s.server.Client(nil, nil).Create(b.Context(), set))
	return s
}

func (s *slow) must(err error) {
	s.b.Helper()
	if err != nil {
		s.b.Fatal(err)
	}
}

// rollout creates all Pods, changes the image, and returns the time until all Pods are updated and ready. With a pause,
// a canary of ten Pods is updated and ready long before all other Pods, and the time of the others is returned.
func (s *slow) rollout(parallelism int, pause bool) time.Duration {
	s.b.Helper()
	s.run(parallelism, slowPods)
	s.change(func(set *v1beta1.CloneSet) {
		set.Spec.Template.Spec.Containers[0].Image = "reg.test/app:v2"
		if parallelism > 0 {
			set.Annotations = map[string]string{apps.AnnotationImagePreDownloadParallelism: strconv.Itoa(parallelism)}
		}
		if pause {
			set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromString("90%"))
		}
	})
	if !pause {
		return s.run(parallelism, slowPods)
	}
	s.run(parallelism, slowPods/10)
	s.change(func(set *v1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	return s.run(parallelism, slowPods)
}

func (s *slow) change(change func(*v1beta1.CloneSet)) {
	s.b.Helper()
	set, _ := s.server.Stored(&v1beta1.CloneSet{}, client.ObjectKey{Namespace: "shop", Name: "web"}).(*v1beta1.CloneSet)
	set = set.DeepCopy()
	change(set)
	s.must(s.server.Client(nil, nil).Update(s.b.Context(), set))
}

// run runs the controllers until no work is left, and returns the time until n updated Pods were ready.
func (s *slow) run(parallelism, n int) time.Duration {
	s.b.Helper()
	began := s.clock.Now()
	r, err := rehearsal.New(rehearsal.Config{Scheme: s.scheme, Server: s.server, Clock: s.clock, ReadyAfter: s.readyAfter})
	s.must(err)
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GatePreDownloadImageForInPlaceUpdate: parallelism > 0})
	options := kruise.Options{Gates: gates, Clock: s.clock, Calls: 1, Workers: 1, PodWorkers: 1, ExpectationTimeout: time.Hour}
	for _, row := range kinds.All() {
		switch row.Kind.Kind {
		case "CloneSet", "ImagePullJob", "NodeImage":
			s.must(row.Setup(s.b.Context(), r.Manager(), r.Manager().GetClient(), options))
		}
	}
	s.must(podreadiness.Setup(s.b.Context(), r.Manager(), r.Manager().GetClient(), options))
	s.must(ctrl.NewControllerManagedBy(r.Manager()).For(&v1beta1.NodeImage{}).Complete(&slowAgent{r.Manager().GetClient(), s}))
	s.must(r.Run(s.b.Context()))
	for _, w := range r.Writes() {
		if set, ok := w.After.(*v1beta1.CloneSet); ok && int(set.Status.UpdatedReadyReplicas) >= n {
			return w.At.Sub(began)
		}
	}
	s.b.Fatalf("no status with %d updated and ready Pods", n)
	return 0
}

// has returns the time at which a Node has the new image, after a pull that begins now if none has begun before.
func (s *slow) has(node string) time.Time {
	if _, ok := s.pulled[node]; !ok {
		s.pulled[node] = s.clock.Now().Add(slowPull)
	}
	return s.pulled[node]
}

// readyAfter lets a container become ready a second after the kubelet has its image.
func (s *slow) readyAfter(pod *corev1.Pod, c faultapi.Unready) (time.Duration, bool) {
	if pod.Spec.Containers[0].Image == "reg.test/app:v1" {
		return time.Second, true
	}
	return max(s.has(pod.Spec.NodeName).Sub(c.Started.Time), 0) + time.Second, true
}

// slowAgent is the agents of all Nodes.
type slowAgent struct {
	client.Client
	cluster *slow
}

// Reconcile reports the pulls that have ended.
func (a *slowAgent) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	image := &v1beta1.NodeImage{}
	if err := a.Get(ctx, req.NamespacedName, image); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wants, now := onnode.Wants(&image.Spec), a.cluster.clock.Now()
	if len(wants) == 0 || len(onnode.Reports(image)) > 0 {
		return ctrl.Result{}, nil
	}
	ends := a.cluster.has(image.Name)
	if wait := ends.Sub(now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	onnode.SetReports(image, []imagepull.Report{{Image: wants[0].Image, Round: wants[0].Round, Phase: imagepull.Succeeded, Present: true, Started: ends.Add(-slowPull), Ended: now}}, now)
	return ctrl.Result{}, a.Status().Update(ctx, image)
}
