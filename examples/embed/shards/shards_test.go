package shards

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

var env = controlplanetest.New(controlplane.Options{Nodes: 3})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

func newScheme(t testing.TB) *runtime.Scheme {
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

const class = "fast"

// start installs the kind, its webhook and some volumes, and runs the operator.
func start(t *testing.T) *fixture {
	t.Helper()
	cp := env.Start(t)
	c, err := client.New(cp.Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{c, t, env.Namespace(t)}
	f.must(install.CRD(t.Context(), c, CRD))
	f.must(c.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: ptr.To(true)}))
	for i := range 4 {
		f.must(c.Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("volume-", i)}, Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}}, StorageClassName: class,
		}}))
	}
	f.must(install.Manifest(t.Context(), c, Webhook))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	port := listener.Addr().(*net.TCPAddr).Port
	f.must(listener.Close())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cp.Config(), Options{Namespace: f.namespace, Host: "127.0.0.1", Port: port}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("operator: %v", err)
		}
	})
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// until waits until want returns true for the status of the Shards.
func (f *fixture) until(s *Shards, want func(*Status) bool) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if s.Status.ObservedGeneration != s.Generation || !want(&s.Status) {
			return fmt.Errorf("generation %d, status %+v", s.Generation, s.Status)
		}
		return nil
	})
}

func (f *fixture) change(s *Shards, edit func(*Spec)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 10*time.Second, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		edit(&s.Spec)
		return f.Update(ctx, s)
	})
}

func (f *fixture) evict(name string, options *metav1.DeleteOptions) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	return f.SubResource("eviction").Create(f.t.Context(), pod, &policyv1.Eviction{DeleteOptions: options})
}

func (f *fixture) uids() map[string]types.UID {
	f.t.Helper()
	var pods corev1.PodList
	f.must(f.List(f.t.Context(), &pods, client.InNamespace(f.namespace)))
	out := map[string]types.UID{}
	for i := range pods.Items {
		out[pods.Items[i].Name] = pods.Items[i].UID
	}
	return out
}

// TestShards: Pods are created in order, and updated in place within the budget. One eviction is admitted and the
// next is refused, until the new Pod is in service. Volumes are enlarged.
func TestShards(t *testing.T) {
	f := start(t)
	s := &Shards{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "db"}}
	s.Spec.Replicas, s.Spec.Storage, s.Spec.StorageClass = 3, resource.MustParse("1Gi"), ptr.To(class)
	s.Spec.Template.Labels = map[string]string{"app": "db"}
	s.Spec.Template.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}
	f.must(f.Create(t.Context(), s))
	full := func(st *Status) bool {
		return st.Available == 3 && st.Updated == 3 && st.Budget.Allowed == 1 && len(st.Budget.Leaving)+len(st.Budget.Changing) == 0
	}
	f.until(s, full)
	before := f.uids()

	f.change(s, func(spec *Spec) { spec.Template.Spec.Containers[0].Image = "app:v2" })
	f.until(s, full)
	if diff := cmp.Diff(before, f.uids()); diff != "" {
		t.Errorf("not in place (-before +after):\n%s", diff)
	}

	if err := f.evict("db-1", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	f.must(f.evict("db-1", nil))
	if err := f.evict("db-2", nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of a second Pod: %v", err)
	}
	f.until(s, full)
	if after := f.uids(); after["db-1"] == before["db-1"] || after["db-2"] != before["db-2"] {
		t.Errorf("Pods %v, before %v", after, before)
	}

	f.change(s, func(spec *Spec) { spec.Storage = resource.MustParse("2Gi") })
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		for i := range 3 {
			claim := &corev1.PersistentVolumeClaim{}
			if err := f.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: fmt.Sprint("data-db-", i)}, claim); err != nil {
				return err
			}
			if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" {
				return fmt.Errorf("claim %s asks for %s", claim.Name, size.String())
			}
		}
		return nil
	})

	f.change(s, func(spec *Spec) { spec.Storage = resource.Quantity{} })
	f.until(s, func(st *Status) bool {
		failed := meta.FindStatusCondition(st.Conditions, "Failed")
		return failed != nil && failed.Status == metav1.ConditionTrue && failed.Reason == string(InvalidSpec)
	})
}
