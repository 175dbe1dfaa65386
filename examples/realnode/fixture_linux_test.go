package realnode_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/realnode"
)

// workload is an object of a kind under test, as the scenarios need it. A new kind needs a single file: an
// implementation of workload, and a test that calls each scenario of the kind.
type workload interface {
	// name returns the name of the object, which is also the value of the label app of its Pods.
	name() string
	// revisionLabel returns the key of the label with the revision of a Pod.
	revisionLabel() string
	// create creates the object with the template and with the given number of Pods.
	create(ctx context.Context, replicas int, template *corev1.PodTemplateSpec) error
	// edit changes the template of the object.
	edit(ctx context.Context, change func(*corev1.PodTemplateSpec)) error
	// isSettled returns nil if all Pods have the newest template and are available. Otherwise the error says which Pods
	// are missing or not updated.
	isSettled(ctx context.Context) error
}

// templateEdit is a change of a Pod template.
type templateEdit = func(*corev1.PodTemplateSpec)

// fixture is the access of a test to the cluster.
type fixture struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	node      *realnode.Node
	namespace string
	// through is the value of the annotation apps.AnnotationPullThrough of the test's ImagePullJobs. If through is
	// empty, the jobs have no such annotation.
	through string
}

// scenario is a test of a workload.
type scenario struct {
	name string
	run  func(*fixture, workload)
}

// sideBySide runs scenarios at the same time in a namespace. Each scenario gets a workload with the scenario's name.
func (f *fixture) sideBySide(t *testing.T, fresh func(f *fixture, name string) workload, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			own := *f
			own.t = t
			s.run(&own, fresh(&own, s.name))
		})
	}
}

// start returns a fixture with a namespace of its own on the real Node.
func start(t testing.TB) *fixture {
	t.Helper()
	n := node.start(t)
	cp := env.Start(t)
	return &fixture{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, node: n, namespace: env.Namespace(t)}
}

// startManager returns a fixture with a namespace of its own on the real Node. The controllers run.
func startManager(t testing.TB, options manager.Options) *fixture {
	t.Helper()
	f := start(t)
	controllertest.Manager(t, f.cp, options)
	return f
}

// resizeGates returns feature gates with which workloads resize containers in place.
func resizeGates() map[apps.Gate]bool {
	gates := apps.DefaultGates()
	gates[apps.GateInPlaceWorkloadVerticalScaling] = true
	return gates
}

func (f *fixture) image(version string) string {
	f.t.Helper()
	image, err := f.node.Image(version)
	if err != nil {
		f.t.Fatal(err)
	}
	return image
}

// container returns a container that runs the test program on a port. The program itself determines whether the
// container is ready.
func (f *fixture) container(name string, port int) corev1.Container {
	return corev1.Container{
		Name: name, Image: f.image("v1"), Env: []corev1.EnvVar{{Name: "PORT", Value: fmt.Sprint(port)}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt(port)}},
			PeriodSeconds: 1,
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}
}

// create creates the workload with the containers app and log and a shared volume. create waits until the workload
// has settled, and returns the Pods.
func (f *fixture) create(w workload, replicas int, edits ...templateEdit) []corev1.Pod {
	f.t.Helper()
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": w.name()}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			DNSPolicy:                    corev1.DNSDefault,
			Containers:                   []corev1.Container{f.container("app", 8080), f.container("log", 8081)},
			Volumes:                      []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	for _, edit := range edits {
		edit(template)
	}
	if err := w.create(f.t.Context(), replicas, template); err != nil {
		f.t.Fatal(err)
	}
	return f.settled(w)
}

// change edits the template, waits until the workload has settled, and returns the Pods.
func (f *fixture) change(w workload, edits ...templateEdit) []corev1.Pod {
	f.t.Helper()
	f.edit(w, edits...)
	return f.settled(w)
}

// edit edits the template. After a conflict, edit tries again.
func (f *fixture) edit(w workload, edits ...templateEdit) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		return w.edit(ctx, func(template *corev1.PodTemplateSpec) {
			for _, edit := range edits {
				edit(template)
			}
		})
	})
}

// settled waits until the workload has settled and returns its Pods.
func (f *fixture) settled(w workload) []corev1.Pod {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		if err := w.isSettled(ctx); err != nil {
			return errors.Join(err, f.troubles(ctx))
		}
		return nil
	})
	return f.pods(w)
}

// quiet waits until no Pod of the workload has changed for the given period.
func (f *fixture) quiet(w workload, period time.Duration) {
	f.t.Helper()
	var versions []string
	var since time.Time
	controlplanetest.Eventually(f.t, within, func(context.Context) error {
		var now []string
		for _, pod := range f.pods(w) {
			now = append(now, pod.ResourceVersion)
		}
		if !slices.Equal(now, versions) {
			versions, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < period {
			return fmt.Errorf("a Pod of %s changed %s ago", w.name(), quiet)
		}
		return nil
	})
}

// troubles returns an error with the reasons why containers in the namespace wait.
func (f *fixture) troubles(ctx context.Context) error {
	var pods corev1.PodList
	if err := f.List(ctx, &pods, client.InNamespace(f.namespace)); err != nil {
		return err
	}
	var all []error
	for i := range pods.Items {
		for _, c := range containers(&pods.Items[i]) {
			all = append(all, fmt.Errorf("Pod %s %s, container %s: image %s (%s), instance %s, ready %t, state %+v",
				pods.Items[i].Name, pods.Items[i].Status.Phase, c.Name, c.Image, c.ImageID, c.ContainerID, c.Ready, c.State))
		}
		all = append(all, fmt.Errorf("Pod %s, annotations: %s", pods.Items[i].Name, pods.Items[i].Annotations))
	}
	return errors.Join(all...)
}

func containers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// gatesOpen reports whether all readiness gates of a Pod are open. The condition Ready alone may be out of date: a
// kubelet that writes the status before it has noticed a closed gate writes the old condition Ready.
func gatesOpen(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		return !podstate.IsTrue(pod, gate.ConditionType)
	})
}

// pods lists the Pods of the workload that have no deletion timestamp.
func (f *fixture) pods(w workload) []corev1.Pod {
	f.t.Helper()
	var list corev1.PodList
	if err := f.List(f.t.Context(), &list, client.InNamespace(f.namespace), client.MatchingLabels{"app": w.name()}); err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// ask sends a request to a container and returns the answer.
func (f *fixture) ask(pod *corev1.Pod, port int, method, path string, query url.Values, body string) string {
	f.t.Helper()
	var out string
	address := url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", pod.Status.PodIP, port), Path: path, RawQuery: query.Encode()}
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, method, address.String(), bytes.NewBufferString(body))
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		data, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s %s: %s: %s", method, address.String(), response.Status, data)
		}
		out = string(data)
		return err
	})
	return out
}

func setImage(container int, image string) templateEdit {
	return func(template *corev1.PodTemplateSpec) { template.Spec.Containers[container].Image = image }
}
