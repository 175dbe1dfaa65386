package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: 3})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// fixture is a running operator with a client for its kind.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
}

func start(t *testing.T) *fixture {
	t.Helper()
	cp := env.Start(t)
	c, err := client.New(cp.Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, CRD); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cp.Config()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("operator: %v", err)
		}
	})
	return &fixture{Client: c, t: t, namespace: env.Namespace(t)}
}

// settle waits until the Fleet has its number of ready Pods, all with the image, and returns the Pods by UID.
func (f *fixture) settle(name, image string, replicas int) map[types.UID]corev1.Pod {
	f.t.Helper()
	var pods map[types.UID]corev1.Pod
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		var list corev1.PodList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{"fleet": name}); err != nil {
			return err
		}
		pods = map[types.UID]corev1.Pod{}
		for _, pod := range list.Items {
			if !podstate.IsReady(&pod) || pod.Status.ContainerStatuses[0].Image != image {
				return fmt.Errorf("Pod %s is not ready with %s", pod.Name, image)
			}
			pods[pod.UID] = pod
		}
		if len(pods) != replicas {
			return fmt.Errorf("%d Pods, want %d", len(pods), replicas)
		}
		return nil
	})
	return pods
}

func (f *fixture) change(fleet *Fleet, edit func(*Fleet)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 10*time.Second, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(fleet), fleet); err != nil {
			return err
		}
		edit(fleet)
		return f.Update(ctx, fleet)
	})
}

func TestFleet(t *testing.T) {
	f := start(t)
	fleet := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "ships"}}
	fleet.Spec.Replicas = 4
	fleet.Spec.Template.Labels = map[string]string{"fleet": "ships"}
	fleet.Spec.Template.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		Containers:                    []corev1.Container{{Name: "app", Image: "app:v1"}},
	}
	if err := f.Create(t.Context(), fleet); err != nil {
		t.Fatal(err)
	}
	created := f.settle("ships", "app:v1", 4)

	f.change(fleet, func(f *Fleet) { f.Spec.Template.Spec.Containers[0].Image = "app:v2" })
	updated := f.settle("ships", "app:v2", 4)
	if diff := cmp.Diff(uids(created), uids(updated)); diff != "" {
		t.Errorf("an image change recreated Pods (-before +after):\n%s", diff)
	}
	for _, pod := range updated {
		if got := pod.Status.ContainerStatuses[0].RestartCount; got != 1 {
			t.Errorf("Pod %s restarted %d times, want once", pod.Name, got)
		}
	}

	f.change(fleet, func(f *Fleet) {
		f.Spec.Replicas = 3
		f.Spec.Template.Spec.Containers[0].Command = []string{"serve"}
	})
	recreated := f.settle("ships", "app:v2", 3)
	controlplanetest.Eventually(t, time.Minute, func(context.Context) error {
		recreated = f.settle("ships", "app:v2", 3)
		for uid := range recreated {
			if _, old := updated[uid]; old {
				return fmt.Errorf("Pod %s of the old template is still there", uid)
			}
		}
		return nil
	})
	stopsNobody(f)
}

func uids(pods map[types.UID]corev1.Pod) map[types.UID]bool {
	out := map[types.UID]bool{}
	for uid := range pods {
		out[uid] = true
	}
	return out
}

// stopsNobody checks that the operator still reconciles valid Fleets while an invalid Fleet exists, and reconciles
// the invalid Fleet after its correction.
func stopsNobody(f *fixture) {
	t := f.t
	t.Helper()
	bad := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": GroupVersion.String(), "kind": "Fleet", "metadata": map[string]any{"name": "typo", "namespace": f.namespace},
		"spec": map[string]any{"replicas": int64(1), "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"fleet": "typo"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:v1"}}, "overhead": map[string]any{"cpu": "oops"}},
		}},
	}}
	if err := f.Create(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	good := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "good"}}
	good.Spec.Replicas = 1
	good.Spec.Template.Labels = map[string]string{"fleet": "good"}
	good.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}
	if err := f.Create(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	f.settle("good", "app:v1", 1)
	f.settle("typo", "", 0)
	mend := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"overhead":null}}}}`))
	if err := f.Patch(t.Context(), bad, mend); err != nil {
		t.Fatal(err)
	}
	f.settle("typo", "app:v1", 1)
}
