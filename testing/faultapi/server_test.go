package faultapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/install"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: controlplane.NoNodes})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// probe is a client with which the cases examine the behavior of an API server, in memory or real.
type probe struct {
	client.Client
	t         *testing.T
	ctx       context.Context
	namespace string
	bind      func(*corev1.Pod)
	// watched returns the events of a watch about a Pod, from the given version until the deletion.
	watched func(pod *corev1.Pod, version string) []watch.Event
}

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, addThings} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// TestSemantics runs the cases on the server in memory.
func TestSemantics(t *testing.T) {
	scheme := newScheme(t)
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			server, err := faultapi.New(scheme, time.Now, &thing{})
			if err != nil {
				t.Fatal(err)
			}
			nodes := server.Nodes()
			p := &probe{Client: server.Client(nil, nil), t: t, ctx: t.Context(), namespace: "default"}
			p.bind = func(pod *corev1.Pod) {
				if !nodes.Schedule(pod, "nowhere") {
					t.Fatalf("Pod %s was not scheduled", pod.Name)
				}
			}
			p.watched = func(pod *corev1.Pod, version string) []watch.Event {
				var events []watch.Event
				for _, e := range server.Events(pod) {
					if after, err := strconv.ParseInt(version, 10, 64); err == nil && e.Version > after && e.Object.GetUID() == pod.UID {
						events = append(events, watch.Event{Type: e.Type, Object: e.Object})
					}
				}
				return events
			}
			if got := tc.run(p); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestBoundClaims: a bound claim may request more storage, and then less again while the volume has not grown yet.
// StorageClasses are cluster-scoped.
func TestBoundClaims(t *testing.T) {
	server, err := faultapi.New(newScheme(t), time.Now, &storagev1.StorageClass{})
	if err != nil {
		t.Fatal(err)
	}
	c, size := server.Client(nil, nil), func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	claim.Spec.Resources.Requests = size("2Gi")
	if err := errors.Join(c.Create(t.Context(), class), c.Get(t.Context(), client.ObjectKey{Name: "fast"}, class), c.Create(t.Context(), claim)); err != nil {
		t.Fatal(err)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("2Gi")}
	if err := c.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		asks string
		want bool
	}{{"4Gi", true}, {"3Gi", true}, {"2Gi", false}, {"1Gi", false}, {"5Gi", true}} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		claim.Spec.Resources.Requests = size(step.asks)
		if err := c.Update(t.Context(), claim); (err == nil) != step.want || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("asking for %s: %v", step.asks, err)
		}
	}
	claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	if err := c.Update(t.Context(), claim); !apierrors.IsInvalid(err) {
		t.Errorf("another mode: %v", err)
	}
}

// TestSemanticsOfRealServer runs the same cases against the real server.
func TestSemanticsOfRealServer(t *testing.T) {
	cp := env.Start(t)
	c, err := client.NewWithWatch(cp.Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, []byte(thingCRD)); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			p := &probe{Client: c, t: t, ctx: t.Context(), namespace: namespace}
			p.bind = func(pod *corev1.Pod) {
				binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}}
				p.must(c.SubResource("binding").Create(p.ctx, pod, binding))
				awaitBound(p, pod)
			}
			p.watched = func(pod *corev1.Pod, version string) []watch.Event {
				w, err := c.Watch(p.ctx, &corev1.PodList{}, client.InNamespace(pod.Namespace), client.MatchingFields{"metadata.name": pod.Name},
					&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
				p.must(err)
				defer w.Stop()
				var events []watch.Event
				for e := range w.ResultChan() {
					if events = append(events, e); e.Type == watch.Deleted {
						break
					}
				}
				return events
			}
			if got := tc.run(p); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// awaitBound waits until the API server's own cache shows the Pod on its node. The API server first tries a deletion
// with the object from its cache. If the cache turns out to be old, the API server repeats the deletion with the
// grace period of the first try: 0 for a Pod without node (k8s.io/apiserver/pkg/registry/generic/registry/store.go,
// updateForGracefulDeletionAndFinalizers).
func awaitBound(p *probe, pod *corev1.Pod) {
	p.t.Helper()
	cached := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
	p.must(wait.PollUntilContextTimeout(p.ctx, 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		seen := &corev1.Pod{}
		err := p.Get(ctx, client.ObjectKeyFromObject(pod), seen, cached)
		return seen.Spec.NodeName != "", client.IgnoreNotFound(err)
	}))
}

func (p *probe) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// pod creates a Pod ignored by schedulers and kubelets.
func (p *probe) pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-", Labels: map[string]string{"app": "probe"}},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](30),
			Containers: []corev1.Container{{
				Name: "app", Image: "example.test/app:v1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	p.must(p.Create(p.ctx, pod))
	return pod
}

// refused returns the outcome of the creation of a Pod after a change.
func (p *probe) refused(change func(*corev1.Pod)) string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "bad"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	change(pod)
	return outcome(p.Create(p.ctx, pod))
}

func (p *probe) thing() *thing {
	p.t.Helper()
	out := &thing{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-"},
		Spec:       thingSpec{Replicas: ptr.To[int32](0)},
		Status:     thingStatus{Replicas: 7},
	}
	p.must(p.Create(p.ctx, out))
	return out
}

// fresh returns the object as read again from the server.
func fresh[T client.Object](p *probe, obj T) T {
	p.t.Helper()
	out := obj.DeepCopyObject().(T)
	p.must(p.Get(p.ctx, client.ObjectKeyFromObject(obj), out))
	return out
}

func (p *probe) gone(obj client.Object) bool {
	err := p.Get(p.ctx, client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	return apierrors.IsNotFound(err)
}

// strategic sends a strategic merge patch of an object or a subresource, and returns the outcome.
func (p *probe) strategic(obj client.Object, sub, body string) string {
	return p.patch(obj, sub, types.StrategicMergePatchType, body)
}

func (p *probe) patch(obj client.Object, sub string, t types.PatchType, body string) string {
	obj = obj.DeepCopyObject().(client.Object)
	if sub == "" {
		return outcome(p.Client.Patch(p.ctx, obj, client.RawPatch(t, []byte(body))))
	}
	return outcome(p.SubResource(sub).Patch(p.ctx, obj, client.RawPatch(t, []byte(body))))
}

// outcome describes an error by the parts relevant to callers: code, reason and the fields of its causes.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return err.Error()
	}
	s := status.Status()
	fields := map[string]bool{}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			fields[cause.Field] = true
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", s.Code, s.Reason, strings.Join(slices.Sorted(maps.Keys(fields)), " ")))
}

// line joins its parts into a single line.
func line(parts ...any) string { return strings.TrimSpace(fmt.Sprintln(parts...)) }

// uidPatch returns a patch with a UID and further metadata.
func uidPatch(uid types.UID, more string) string {
	return fmt.Sprintf(`{"metadata":{"uid":%q%s}}`, uid, more)
}

const otherUID = types.UID("00000000-0000-0000-0000-000000000000")

type semantics struct {
	name string
	run  func(*probe) string
	want string
}

func cases() []semantics {
	return slices.Concat(
		createCases(), patchCases(), updateCases(), statusCases(), resizeCases(), ephemeralCases(), dryRunCases(), generationCases(), deleteCases(), shortenCases(), watchCases(), customCases(), revisionCases(), otherCases(),
	)
}

func createCases() []semantics {
	return []semantics{
		{"create sets uid, generation, phase and qos", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
			return line(pod.UID != "", pod.ResourceVersion != "", !pod.CreationTimestamp.IsZero(), pod.Generation, pod.Status.Phase, pod.Status.QOSClass)
		}, "true true true 1 Pending Burstable"},
		{"create ignores what is the server's to say", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) {
				pod.UID, pod.Generation, pod.CreationTimestamp = otherUID, 9, metav1.Unix(1, 0)
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Unix(1, 0)), ptr.To[int64](9)
			})
			return line(pod.UID != otherUID, pod.Generation, pod.CreationTimestamp.After(time.Unix(1, 0)), pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
		}, "true 1 true <nil> <nil>"},
		{"create of a name that is taken", func(p *probe) string {
			pod := p.pod()
			again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Spec: *pod.Spec.DeepCopy()}
			return outcome(p.Create(p.ctx, again))
		}, "409 AlreadyExists"},
		{"create with a resourceVersion", func(p *probe) string {
			pod := p.pod()
			again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "-2", ResourceVersion: pod.ResourceVersion}, Spec: *pod.Spec.DeepCopy()}
			err := p.Create(p.ctx, again)
			return line(err != nil)
		}, "true"},
		{"create with a label value that is none", func(p *probe) string {
			return p.refused(func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": strings.Repeat("x", 64)} })
		}, "422 Invalid metadata.labels"},
		{"create with a label key that is none", func(p *probe) string {
			return p.refused(func(pod *corev1.Pod) { pod.Labels = map[string]string{strings.Repeat("x", 64): "a"} })
		}, "422 Invalid metadata.labels"},
		{"create without containers", func(p *probe) string {
			return p.refused(func(pod *corev1.Pod) { pod.Spec.Containers = nil })
		}, "422 Invalid spec.containers"},
		{"create with a container that has neither name nor image", func(p *probe) string {
			return p.refused(func(pod *corev1.Pod) { pod.Spec.Containers[0] = corev1.Container{} })
		}, "422 Invalid spec.containers[0].image spec.containers[0].name"},
		{"create with mounts of volumes that the Pod lacks", func(p *probe) string {
			return p.refused(func(pod *corev1.Pod) {
				there, nowhere := corev1.VolumeMount{Name: "there", MountPath: "/a"}, corev1.VolumeMount{Name: "nowhere", MountPath: "/b"}
				pod.Spec.Volumes = []corev1.Volume{{Name: "there", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
				pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{there, nowhere}
				pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "example.test/app:v1", VolumeMounts: []corev1.VolumeMount{nowhere}}}
				pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/a"}}
			})
		}, "422 Invalid spec.containers[0].volumeDevices[0].name spec.containers[0].volumeMounts[1].name spec.initContainers[0].volumeMounts[0].name"},
	}
}

func patchCases() []semantics {
	return []semantics{
		{"patch of labels", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "", uidPatch(pod.UID, `,"labels":{"a":"b","app":null}`))
			after := fresh(p, pod)
			return line(got, after.Labels, after.Generation, after.ResourceVersion != pod.ResourceVersion)
		}, "ok map[a:b] 1 true"},
		{"patch that changes nothing keeps the version", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "", uidPatch(pod.UID, `,"labels":{"app":"probe"}`))
			return line(got, fresh(p, pod).ResourceVersion == pod.ResourceVersion)
		}, "ok true"},
		{"patch with another uid", func(p *probe) string {
			return p.strategic(p.pod(), "", uidPatch(otherUID, `,"labels":{"a":"b"}`))
		}, "422 Invalid metadata.uid"},
		{"patch with an old resourceVersion", func(p *probe) string {
			pod := p.pod()
			p.must(p.Client.Patch(p.ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
			return p.strategic(pod, "", fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"a":"c"}}}`, pod.ResourceVersion))
		}, "409 Conflict"},
		{"patch with an old resourceVersion and another uid", func(p *probe) string {
			return p.strategic(p.pod(), "", fmt.Sprintf(`{"metadata":{"resourceVersion":"1","uid":%q}}`, otherUID))
		}, "409 Conflict"},
		{"patch of what is not there", func(p *probe) string {
			pod := p.pod()
			pod.Name += "-not"
			return p.strategic(pod, "", uidPatch(pod.UID, ""))
		}, "404 NotFound"},
		{"patch of an image raises the generation", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "", `{"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}`)
			after := fresh(p, pod)
			return line(got, after.Spec.Containers[0].Image, after.Generation)
		}, "ok example.test/app:v2 2"},
		{"patch of an immutable field", func(p *probe) string {
			return p.strategic(p.pod(), "", `{"spec":{"containers":[{"name":"app","env":[{"name":"A","value":"1"}]}]}}`)
		}, "422 Invalid spec"},
		{"patch of resources without resize", func(p *probe) string {
			return p.strategic(p.pod(), "", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)
		}, "422 Invalid spec"},
		{"patch of the status without its subresource", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "", `{"status":{"phase":"Running"}}`)
			after := fresh(p, pod)
			return line(got, after.Status.Phase, after.ResourceVersion == pod.ResourceVersion)
		}, "ok Pending true"},
		{"patch removes one finalizer", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.test/a", "example.test/b"} })
			got := p.strategic(pod, "", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/a"]}}`)
			after := fresh(p, pod)
			p.strategic(pod, "", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/b"]}}`)
			return line(got, after.Finalizers)
		}, "ok [example.test/b]"},
		{"patch removes one owner by uid", func(p *probe) string {
			a, b := p.thing(), p.thing() // existing owners: otherwise the Pod would be collected as garbage
			pod := p.pod(func(pod *corev1.Pod) {
				for _, owner := range []*thing{a, b} {
					pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "faultapi.test/v1", Kind: "Thing", Name: owner.Name, UID: owner.UID})
				}
			})
			got := p.strategic(pod, "", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":%q}]}}`, a.UID))
			left := fresh(p, pod).OwnerReferences
			return line(got, len(left), left[0].UID == b.UID)
		}, "ok 1 true"},
		{"update with another uid", func(p *probe) string {
			pod := p.pod()
			pod.UID, pod.ResourceVersion = otherUID, ""
			return outcome(p.Update(p.ctx, pod))
		}, "409 Conflict"},
		{"answer as metadata alone", func(p *probe) string {
			pod := p.pod()
			obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			err := p.Client.Patch(p.ctx, obj, client.RawPatch(types.StrategicMergePatchType, []byte(uidPatch(pod.UID, `,"labels":{"a":"b"}`))))
			return line(outcome(err), obj.UID == pod.UID, obj.Labels, obj.ResourceVersion == fresh(p, pod).ResourceVersion)
		}, "ok true map[a:b app:probe] true"},
	}
}

func updateCases() []semantics {
	update := func(p *probe, pod *corev1.Pod, sub string) string {
		if sub == "" {
			return outcome(p.Update(p.ctx, pod))
		}
		return outcome(p.SubResource(sub).Update(p.ctx, pod))
	}
	stale := func(sub string) func(*probe) string {
		return func(p *probe) string {
			pod := p.pod()
			p.strategic(pod, "", `{"metadata":{"labels":{"a":"b"}}}`)
			pod.Status.Reason = "x"
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("200m")
			return update(p, pod, sub)
		}
	}
	return []semantics{
		{"update with an old resourceVersion", stale(""), "409 Conflict"},
		{"status update with an old resourceVersion", stale("status"), "409 Conflict"},
		{"resize update with an old resourceVersion", stale("resize"), "409 Conflict"},
		{"update without resourceVersion takes what is there", func(p *probe) string {
			pod := p.pod()
			p.strategic(pod, "", `{"metadata":{"labels":{"a":"b"}}}`)
			pod.ResourceVersion, pod.Labels = "", map[string]string{"c": "d"}
			return line(update(p, pod, ""), fresh(p, pod).Labels)
		}, "ok map[c:d]"},
		{"update that changes nothing keeps the version", func(p *probe) string {
			pod := p.pod()
			before := pod.ResourceVersion
			pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			got := update(p, pod, "")
			return line(got, pod.ResourceVersion == before, fresh(p, pod).ResourceVersion == before)
		}, "ok true true"},
		{"update that leaves defaults out", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
			})
			before := pod.ResourceVersion
			pod.Spec.TerminationGracePeriodSeconds, pod.Spec.RestartPolicy = nil, ""
			delete(pod.Spec.Containers[0].Resources.Requests, corev1.ResourceMemory)
			got := update(p, pod, "")
			return line(got, *pod.Spec.TerminationGracePeriodSeconds, pod.Spec.RestartPolicy, pod.Spec.Containers[0].Resources.Requests.Memory(), pod.ResourceVersion == before)
		}, "ok 30 Always 1Mi true"},
		{"a refused update leaves the caller's object alone", func(p *probe) string {
			pod := p.pod()
			before := pod.ResourceVersion
			pod.Spec.NodeSelector = map[string]string{"a": "b"}
			got := update(p, pod, "")
			return line(got, pod.Spec.NodeSelector, pod.ResourceVersion == before)
		}, "422 Invalid spec map[a:b] true"},
	}
}

// generationCases check which writes of a Pod increase metadata.generation.
func generationCases() []semantics {
	count := func(change func(p *probe, pod *corev1.Pod)) func(*probe) string {
		return func(p *probe) string {
			pod := p.pod()
			before := fresh(p, pod)
			change(p, pod)
			after := fresh(p, pod)
			return line(after.Generation-before.Generation, after.ResourceVersion != before.ResourceVersion)
		}
	}
	patch := func(sub, body string) func(p *probe, pod *corev1.Pod) {
		return func(p *probe, pod *corev1.Pod) { p.strategic(pod, sub, body) }
	}
	return []semantics{
		{"generation: binding keeps it", func(p *probe) string {
			pod := p.pod()
			p.bind(pod)
			after := fresh(p, pod)
			return line(after.Generation, after.Spec.NodeName, after.ResourceVersion != pod.ResourceVersion)
		}, "1 nowhere true"},
		{"generation: metadata keeps it", count(patch("", `{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"finalizers":[]}}`)), "0 true"},
		{"generation: status keeps it", count(patch("status", `{"status":{"phase":"Running"}}`)), "0 true"},
		{"generation: an image raises it", count(patch("", `{"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}`)), "1 true"},
		{"generation: an image and a label raise it once", count(patch("", `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}`)), "1 true"},
		{"generation: the same image keeps it", count(patch("", `{"spec":{"containers":[{"name":"app","image":"example.test/app:v1"}]}}`)), "0 false"},
		{"generation: a resize raises it", count(patch("resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)), "1 true"},
		{"generation: the same resources keep it", count(patch("resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"0.1"}}}]}}`)), "0 false"},
		{"generation: a refused change keeps it", count(patch("", `{"spec":{"hostNetwork":true}}`)), "0 false"},
		{"generation: deletion raises it once", count(func(p *probe, pod *corev1.Pod) {
			p.bind(pod)
			p.must(p.Delete(p.ctx, pod))
			p.must(p.Delete(p.ctx, pod, client.GracePeriodSeconds(3)))
		}), "1 true"},
	}
}

// shortenCases delete a Pod on a node twice: with its own grace period of 30 s, then with a different grace period.
func shortenCases() []semantics {
	twice := func(seconds int64, between ...string) func(*probe) string {
		return func(p *probe) string {
			pod := p.pod()
			p.bind(pod)
			p.must(p.Delete(p.ctx, pod))
			for _, status := range between {
				p.strategic(pod, "status", status)
			}
			first := fresh(p, pod)
			got := outcome(p.Delete(p.ctx, pod, client.GracePeriodSeconds(seconds)))
			second := fresh(p, pod)
			return line(got, *second.DeletionGracePeriodSeconds, first.DeletionTimestamp.Sub(second.DeletionTimestamp.Time), second.ResourceVersion != first.ResourceVersion)
		}
	}
	return []semantics{
		{"second delete with less time counts from the first", twice(10), "ok 10 20s true"},
		{"second delete with as much time", twice(30), "ok 30 0s false"},
		{"second delete with more time", twice(31), "ok 30 0s false"},
		{"second delete with less than no time", twice(-5), "ok 1 29s true"},
		{"second delete of a Pod that has failed meanwhile", twice(10, `{"status":{"phase":"Failed"}}`), "ok 10 20s true"},
	}
}

// watchCases check the events of watches for a deletion.
func watchCases() []semantics {
	shown := func(p *probe, pod *corev1.Pod, version string) string {
		var parts []any
		for _, e := range p.watched(pod, version) {
			pod := e.Object.(*corev1.Pod)
			parts = append(parts, e.Type, pod.DeletionTimestamp != nil, pod.Finalizers, pod.Labels)
		}
		return line(parts...)
	}
	return []semantics{
		{"watch: the deletion of a Pod without node has two events", func(p *probe) string {
			pod := p.pod()
			p.must(p.Delete(p.ctx, pod))
			return shown(p, pod, pod.ResourceVersion)
		}, "MODIFIED true [] map[app:probe] DELETED true [] map[app:probe]"},
		{"watch: the update that removes the last finalizer is never seen", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.test/f"} })
			p.must(p.Delete(p.ctx, pod))
			p.strategic(pod, "", `{"metadata":{"labels":{"a":"b"},"$deleteFromPrimitiveList/finalizers":["example.test/f"]}}`)
			return shown(p, pod, pod.ResourceVersion)
		}, "MODIFIED true [example.test/f] map[app:probe] DELETED true [example.test/f] map[app:probe]"},
		{"watch: a deletion has a version of its own", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.test/f"} })
			p.must(p.Delete(p.ctx, pod))
			last := fresh(p, pod)
			p.must(p.Client.Patch(p.ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/f"]}}`))))
			events := p.watched(pod, last.ResourceVersion)
			deleted := events[0].Object.(*corev1.Pod)
			return line(len(events), deleted.ResourceVersion != last.ResourceVersion, pod.ResourceVersion == last.ResourceVersion, pod.Finalizers)
		}, "1 true true []"},
	}
}

func statusCases() []semantics {
	const condition = `"status":{"conditions":[{"type":"example.test/gate","status":"True"}]}`
	return []semantics{
		{"status patch keeps labels and annotations and drops the spec", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "status", `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["example.test/f"]},"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]},`+condition+`}`)
			after := fresh(p, pod)
			p.strategic(pod, "", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/f"]}}`)
			return line(got, after.Labels["a"], after.Annotations["c"], after.Finalizers, after.Spec.Containers[0].Image, after.Generation, len(after.Status.Conditions))
		}, "ok b d [example.test/f] example.test/app:v1 1 1"},
		{"status patch drops owner references", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "status", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]},`+condition+`}`)
			return line(got, len(fresh(p, pod).OwnerReferences))
		}, "ok 0"},
		{"status patch with another uid", func(p *probe) string {
			return p.strategic(p.pod(), "status", `{"metadata":{"uid":"`+string(otherUID)+`"},`+condition+`}`)
		}, "422 Invalid metadata.uid"},
		{"status patch with an old resourceVersion", func(p *probe) string {
			return p.strategic(p.pod(), "status", `{"metadata":{"resourceVersion":"1"},`+condition+`}`)
		}, "409 Conflict"},
		{"status patch keeps the quality of service and observed generations", func(p *probe) string {
			pod := p.pod()
			p.strategic(pod, "status", `{"status":{"observedGeneration":1,"conditions":[{"type":"example.test/gate","status":"False","observedGeneration":1}]}}`)
			got := p.strategic(pod, "status", `{"status":{"qosClass":null,"observedGeneration":null,"conditions":[{"type":"example.test/gate","status":"True","observedGeneration":null}]}}`)
			after := fresh(p, pod)
			return line(got, after.Status.QOSClass, after.Status.ObservedGeneration, after.Status.Conditions[0].ObservedGeneration)
		}, "ok Burstable 1 1"},
		{"status patch that changes nothing keeps the version", func(p *probe) string {
			pod := p.pod()
			p.strategic(pod, "status", `{`+condition+`}`)
			before := fresh(p, pod)
			got := p.strategic(pod, "status", `{`+condition+`}`)
			return line(got, fresh(p, pod).ResourceVersion == before.ResourceVersion)
		}, "ok true"},
	}
}

// dryRun patches a Pod as a dry run, and returns the outcome and whether the stored Pod is unchanged.
func (p *probe) dryRun(sub, body string) string {
	pod := p.pod()
	before, answer := fresh(p, pod), pod.DeepCopy()
	var err error
	if patch := client.RawPatch(types.StrategicMergePatchType, []byte(body)); sub == "" {
		err = p.Client.Patch(p.ctx, answer, patch, client.DryRunAll)
	} else {
		err = p.SubResource(sub).Patch(p.ctx, answer, patch, client.DryRunAll)
	}
	after := fresh(p, pod)
	return line(outcome(err), answer.Labels, answer.Spec.Containers[0].Resources.Requests.Cpu(), answer.Generation, answer.ResourceVersion == before.ResourceVersion,
		after.Labels, after.Spec.Containers[0].Resources.Requests.Cpu(), after.Generation, after.ResourceVersion == before.ResourceVersion)
}

func dryRunCases() []semantics {
	resize := func(cpu, more string) string {
		return `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"` + cpu + `"` + more + `}}]}}`
	}
	return []semantics{
		{"dry run of labels", func(p *probe) string { return p.dryRun("", `{"metadata":{"labels":{"a":"b"}}}`) }, "ok map[a:b app:probe] 100m 1 true map[app:probe] 100m 1 true"},
		{"dry run of a resize", func(p *probe) string { return p.dryRun("resize", resize("200m", "}")) }, "ok map[app:probe] 200m 2 true map[app:probe] 100m 1 true"},
		{"dry run of a resize that is refused", func(p *probe) string {
			return p.dryRun("resize", resize("200m", `,"memory":"1Mi"},"limits":{"cpu":"200m","memory":"1Mi"}`))
		}, "422 Invalid spec map[app:probe] 100m 1 true map[app:probe] 100m 1 true"},
		{"dry run of what cannot change", func(p *probe) string { return p.dryRun("", `{"spec":{"nodeName":"other"}}`) }, "422 Invalid spec map[app:probe] 100m 1 true map[app:probe] 100m 1 true"},
		{"dry run with another uid", func(p *probe) string {
			return p.dryRun("resize", `{"metadata":{"uid":"`+string(otherUID)+`"}}`)
		}, "422 Invalid metadata.uid map[app:probe] 100m 1 true map[app:probe] 100m 1 true"},
	}
}

func resizeCases() []semantics {
	return []semantics{
		{"resize drops labels and images", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, "resize", `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"example.test/app:v2","resources":{"requests":{"cpu":"200m"}}}]}}`)
			after := fresh(p, pod)
			return line(got, after.Labels, after.Spec.Containers[0].Image, after.Spec.Containers[0].Resources.Requests.Cpu(), after.Generation)
		}, "ok map[app:probe] example.test/app:v1 200m 2"},
		{"resize with another uid", func(p *probe) string {
			return p.strategic(p.pod(), "resize", `{"metadata":{"uid":"`+string(otherUID)+`"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)
		}, "422 Invalid metadata.uid"},
		{"resize with an old resourceVersion", func(p *probe) string {
			return p.strategic(p.pod(), "resize", `{"metadata":{"resourceVersion":"1"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)
		}, "409 Conflict"},
		{"resize that would change the quality of service", func(p *probe) string {
			return p.strategic(p.pod(), "resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m","memory":"1Mi"},"limits":{"cpu":"200m","memory":"1Mi"}}}]}}`)
		}, "422 Invalid spec"},
		{"resize of what cannot be resized", func(p *probe) string {
			return p.strategic(p.pod(), "resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"ephemeral-storage":"1Mi"}}}]}}`)
		}, "422 Invalid spec"},
		{"resize to a limit below the request", func(p *probe) string {
			return p.strategic(p.pod(), "resize", `{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1m"}}}]}}`)
		}, "422 Invalid spec.containers[0].resources.requests"},
		{"resize that removes a request", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Mi")
			})
			return p.strategic(pod, "resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"memory":null}}}]}}`)
		}, "422 Invalid spec.containers[0].resources.requests"},
	}
}

// ephemeralCases are about pods/ephemeralcontainers.
func ephemeralCases() []semantics {
	const sub, full = "ephemeralcontainers", `"image":"example.test/tool:v1","imagePullPolicy":"IfNotPresent","terminationMessagePolicy":"File","terminationMessagePath":"/dev/termination-log"`
	add := func(p *probe, pod *corev1.Pod, container string) string {
		return p.strategic(pod, sub, `{"spec":{"ephemeralContainers":[{`+container+`}]}}`)
	}
	names := func(p *probe, pod *corev1.Pod) (out []string) {
		pod = fresh(p, pod)
		for i := range pod.Spec.EphemeralContainers {
			out = append(out, pod.Spec.EphemeralContainers[i].Name)
		}
		slices.Sort(out)
		return out
	}
	return []semantics{
		{"create with ephemeral containers", func(p *probe) string {
			return p.refused(func(pod *corev1.Pod) {
				pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "a", Image: "a"}}}
			})
		}, "422 Invalid spec.ephemeralContainers"},
		{"an ephemeral container comes with nothing else", func(p *probe) string {
			pod := p.pod()
			got := p.strategic(pod, sub, `{"metadata":{"uid":"`+string(pod.UID)+`","resourceVersion":"`+pod.ResourceVersion+`","labels":{"a":"b"}},`+
				`"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}],"ephemeralContainers":[{"name":"a",`+full+`,"env":[{"name":"A","value":"b"}]}]}}`)
			after := fresh(p, pod)
			return line(got, after.Labels, after.Spec.Containers[0].Image, names(p, pod), after.Spec.EphemeralContainers[0].Env[0].Value, after.Generation)
		}, "ok map[app:probe] example.test/app:v1 [a] b 2"},
		{"a second ephemeral container joins the first", func(p *probe) string {
			pod := p.pod()
			return line(add(p, pod, `"name":"a",`+full), add(p, pod, `"name":"b",`+full), names(p, pod), fresh(p, pod).Generation)
		}, "ok ok [a b] 3"},
		{"the same ephemeral container again changes nothing", func(p *probe) string {
			pod := p.pod()
			return line(add(p, pod, `"name":"a",`+full), add(p, pod, `"name":"a",`+full), names(p, pod), fresh(p, pod).Generation)
		}, "ok ok [a] 2"},
		{"an ephemeral container with another variable", func(p *probe) string {
			pod := p.pod()
			return line(add(p, pod, `"name":"a",`+full), add(p, pod, `"name":"a",`+full+`,"env":[{"name":"A","value":"b"}]`))
		}, "ok 422 Invalid spec.ephemeralContainers"},
		{"an ephemeral container cannot go", func(p *probe) string {
			pod := p.pod()
			return line(add(p, pod, `"name":"a",`+full), p.strategic(pod, sub, `{"spec":{"ephemeralContainers":null}}`), add(p, pod, `"name":"a","$patch":"delete"`))
		}, "ok 422 Invalid spec.ephemeralContainers 422 Invalid spec.ephemeralContainers"},
		{"an ephemeral container with the name of a container", func(p *probe) string {
			return add(p, p.pod(), `"name":"app",`+full)
		}, "422 Invalid spec.ephemeralContainers[0].name"},
		{"an ephemeral container without an image", func(p *probe) string { return add(p, p.pod(), `"name":"a"`) }, "422 Invalid spec.ephemeralContainers[0].image"},
		{"an ephemeral container with a target that is not there", func(p *probe) string {
			return add(p, p.pod(), `"name":"a",`+full+`,"targetContainerName":"nobody"`)
		}, "422 Invalid spec.ephemeralContainers[0].targetContainerName"},
		{"an ephemeral container for another uid", func(p *probe) string {
			return p.strategic(p.pod(), sub, uidPatch(otherUID, "")[:len(uidPatch(otherUID, ""))-1]+`,"spec":{"ephemeralContainers":[{"name":"a",`+full+`}]}}`)
		}, "422 Invalid metadata.uid"},
		{"an ephemeral container for an old resourceVersion", func(p *probe) string {
			return p.strategic(p.pod(), sub, `{"metadata":{"resourceVersion":"1"},"spec":{"ephemeralContainers":[{"name":"a",`+full+`}]}}`)
		}, "409 Conflict"},
		{"an ephemeral container without the subresource", func(p *probe) string {
			return p.strategic(p.pod(), "", `{"spec":{"ephemeralContainers":[{"name":"a",`+full+`}]}}`)
		}, "422 Invalid spec"},
		{"an ephemeral container for nobody", func(p *probe) string {
			pod := p.pod()
			p.must(p.Delete(p.ctx, pod))
			return add(p, pod, `"name":"a",`+full)
		}, "404 NotFound"},
	}
}

func deleteCases() []semantics {
	uid := func(uid types.UID) client.DeleteOption { return client.Preconditions{UID: &uid} }
	return []semantics{
		{"delete with another uid", func(p *probe) string { return outcome(p.Delete(p.ctx, p.pod(), uid(otherUID))) }, "409 Conflict"},
		{"delete with an old resourceVersion", func(p *probe) string {
			return outcome(p.Delete(p.ctx, p.pod(), client.Preconditions{ResourceVersion: ptr.To("1")}))
		}, "409 Conflict"},
		{"delete of a Pod without node is immediate", func(p *probe) string {
			pod := p.pod()
			return line(outcome(p.Delete(p.ctx, pod, uid(pod.UID))), p.gone(pod))
		}, "ok true"},
		{"delete of a Pod on a node is graceful", func(p *probe) string {
			pod := p.pod()
			p.bind(pod)
			before := fresh(p, pod)
			got := outcome(p.Delete(p.ctx, pod, uid(pod.UID)))
			after := fresh(p, pod)
			again := outcome(p.Delete(p.ctx, pod))
			same := fresh(p, pod).ResourceVersion == after.ResourceVersion
			last := outcome(p.Delete(p.ctx, pod, client.GracePeriodSeconds(0)))
			return line(got, after.DeletionTimestamp != nil, *after.DeletionGracePeriodSeconds, after.Generation-before.Generation, again, same, last, p.gone(pod))
		}, "ok true 30 1 ok true ok true"},
		{"delete of a Pod that has failed is immediate", func(p *probe) string {
			pod := p.pod()
			p.bind(pod)
			p.strategic(pod, "status", `{"status":{"phase":"Failed"}}`)
			return line(outcome(p.Delete(p.ctx, pod)), p.gone(pod))
		}, "ok true"},
		{"delete of a Pod with grace 0 in its spec is immediate", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) })
			p.bind(pod)
			return line(outcome(p.Delete(p.ctx, pod)), p.gone(pod))
		}, "ok true"},
		{"delete waits for finalizers", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.test/f"} })
			got := outcome(p.Delete(p.ctx, pod))
			after := fresh(p, pod)
			add := p.strategic(pod, "", `{"metadata":{"finalizers":["example.test/g"]}}`)
			free := p.strategic(pod, "", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/f"]}}`)
			return line(got, after.DeletionTimestamp != nil, *after.DeletionGracePeriodSeconds, add, free, p.gone(pod))
		}, "ok true 0 422 Invalid metadata.finalizers ok true"},
		{"delete of a Pod on a node with finalizers", func(p *probe) string {
			pod := p.pod(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.test/f"} })
			p.bind(pod)
			got := outcome(p.Delete(p.ctx, pod))
			end := outcome(p.Delete(p.ctx, pod, client.GracePeriodSeconds(0)))
			after := fresh(p, pod)
			free := p.strategic(pod, "", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/f"]}}`)
			return line(got, end, *after.DeletionGracePeriodSeconds, free, p.gone(pod))
		}, "ok ok 0 ok true"},
		{"delete of what is not there", func(p *probe) string {
			pod := p.pod()
			pod.Name += "-not"
			return outcome(p.Delete(p.ctx, pod))
		}, "404 NotFound"},
		{"status patch cannot undo a deletion", func(p *probe) string {
			pod := p.pod()
			p.bind(pod)
			p.must(p.Delete(p.ctx, pod))
			got := p.strategic(pod, "status", `{"metadata":{"deletionTimestamp":null},"status":{"reason":"x"}}`)
			after := fresh(p, pod)
			p.must(p.Delete(p.ctx, pod, client.GracePeriodSeconds(0)))
			return line(got, after.DeletionTimestamp != nil, after.Status.Reason)
		}, "ok true x"},
	}
}

func customCases() []semantics {
	const status = `"status":{"replicas":3}`
	return []semantics{
		{"custom: create drops the status", func(p *probe) string {
			obj := p.thing()
			return line(obj.Generation, fresh(p, obj).Status.Replicas)
		}, "1 0"},
		{"custom: status patch drops spec and metadata", func(p *probe) string {
			obj := p.thing()
			got := p.patch(obj, "status", types.MergePatchType, `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":5},`+status+`}`)
			after := fresh(p, obj)
			return line(got, len(after.Labels), *after.Spec.Replicas, after.Status.Replicas, after.Generation)
		}, "ok 0 0 3 1"},
		{"custom: status patch with another uid is carried out", func(p *probe) string {
			obj := p.thing()
			got := p.patch(obj, "status", types.MergePatchType, `{"metadata":{"uid":"`+string(otherUID)+`"},`+status+`}`)
			after := fresh(p, obj)
			return line(got, after.UID == obj.UID, after.Status.Replicas)
		}, "ok true 3"},
		{"custom: status patch with an old resourceVersion", func(p *probe) string {
			return p.patch(p.thing(), "status", types.MergePatchType, `{"metadata":{"resourceVersion":"1"},`+status+`}`)
		}, "409 Conflict"},
		{"custom: status patch that tests the uid", func(p *probe) string {
			obj := p.thing()
			body := func(uid types.UID) string {
				return fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},{"op":"add","path":"/status","value":{"replicas":3}}]`, uid)
			}
			other := p.patch(obj, "status", types.JSONPatchType, body(otherUID))
			own := p.patch(obj, "status", types.JSONPatchType, body(obj.UID))
			return line(other, own, fresh(p, obj).Status.Replicas)
		}, "422 Invalid ok 3"},
		{"custom: patch of the spec raises the generation and drops the status", func(p *probe) string {
			obj := p.thing()
			got := p.patch(obj, "", types.MergePatchType, `{"spec":{"replicas":5},`+status+`}`)
			after := fresh(p, obj)
			return line(got, *after.Spec.Replicas, after.Status.Replicas, after.Generation)
		}, "ok 5 0 2"},
		{"custom: patch with another uid", func(p *probe) string {
			return p.patch(p.thing(), "", types.MergePatchType, uidPatch(otherUID, `,"labels":{"a":"b"}`))
		}, "422 Invalid metadata.uid"},
		{"custom: patch of labels keeps the generation", func(p *probe) string {
			obj := p.thing()
			got := p.patch(obj, "", types.MergePatchType, uidPatch(obj.UID, `,"labels":{"a":"b"}`))
			return line(got, fresh(p, obj).Generation)
		}, "ok 1"},
		{"custom: strategic merge patch", func(p *probe) string {
			return p.strategic(p.thing(), "", `{"spec":{"replicas":5}}`)
		}, "415 UnsupportedMediaType"},
		{"custom: deletion that waits for a finalizer raises the generation once", func(p *probe) string {
			obj := p.thing()
			p.must(p.Client.Patch(p.ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.test/f"]}}`))))
			got := outcome(p.Delete(p.ctx, obj))
			first := fresh(p, obj)
			again := outcome(p.Delete(p.ctx, obj))
			second := fresh(p, obj)
			free := p.patch(obj, "", types.MergePatchType, `{"metadata":{"finalizers":null}}`)
			return line(got, first.Generation, first.DeletionTimestamp != nil, *first.DeletionGracePeriodSeconds, again, second.ResourceVersion == first.ResourceVersion, free, p.gone(obj))
		}, "ok 2 true 0 ok true ok true"},
		{"custom: update without resourceVersion", func(p *probe) string {
			obj := p.thing()
			obj.ResourceVersion = ""
			return outcome(p.Update(p.ctx, obj))
		}, "422 Invalid metadata.resourceVersion"},
	}
}

// revisionCases check that the data of a ControllerRevision is compared byte by byte, and that a patch encodes the
// whole object again.
func revisionCases() []semantics {
	labelled := func(data string) func(*probe) string {
		return func(p *probe) string {
			rev := &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-"},
				Data:       runtime.RawExtension{Raw: json.RawMessage(data)}, Revision: 1,
			}
			p.must(p.Create(p.ctx, rev))
			got := p.strategic(rev, "", `{"metadata":{"labels":{"a":"b"}}}`)
			after := fresh(p, rev)
			return line(got, len(after.Labels), string(after.Data.Raw))
		}
	}
	return []semantics{
		{"revisions keep directives in their data", labelled(`{"a":{"$patch":"replace","x":1}}`), `ok 1 {"a":{"$patch":"replace","x":1}}`},
		{"revisions keep nulls in their data", labelled(`{"a":{"x":null}}`), `ok 1 {"a":{"x":null}}`},
		{"revisions with characters of HTML in their data", labelled(`{"a":"<&>"}`), `422 Invalid data 0 {"a":"<&>"}`},
		{"revisions with keys out of order in their data", labelled(`{"b":1,"a":1}`), `422 Invalid data 0 {"b":1,"a":1}`},
		{"revisions with white space in their data", labelled(`{ "a": 1 }`), `422 Invalid data 0 { "a": 1 }`},
	}
}

func otherCases() []semantics {
	return []semantics{
		{"claims are protected", func(p *probe) string {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-", Finalizers: []string{"example.test/hold"}},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("none"),
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			p.must(p.Create(p.ctx, claim))
			protected := slices.Contains(claim.Finalizers, "kubernetes.io/pvc-protection")
			got := outcome(p.Delete(p.ctx, claim))
			after := fresh(p, claim)
			p.strategic(claim, "", `{"metadata":{"finalizers":null}}`)
			return line(protected, claim.Status.Phase, got, after.DeletionTimestamp != nil)
		}, "true Pending ok true"},
		{"claims without a volume do not change", func(p *probe) string {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("none"),
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			p.must(p.Create(p.ctx, claim))
			larger := p.strategic(claim, "", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
			smaller := p.strategic(claim, "", `{"spec":{"resources":{"requests":{"storage":"1Mi"}}}}`)
			other := p.strategic(claim, "", `{"spec":{"accessModes":["ReadWriteMany"]}}`)
			return line(larger, smaller, other, p.strategic(claim, "", `{"metadata":{"labels":{"a":"b"}}}`))
		}, "422 Invalid spec 422 Invalid spec 422 Invalid spec ok"},
		{"revisions that wait for a finalizer get no generation", func(p *probe) string {
			rev := &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-", Finalizers: []string{"example.test/f"}},
				Data:       runtime.RawExtension{Raw: json.RawMessage(`{"a":1}`)}, Revision: 1,
			}
			p.must(p.Create(p.ctx, rev))
			got := outcome(p.Delete(p.ctx, rev))
			after := fresh(p, rev)
			free := p.strategic(rev, "", `{"metadata":{"finalizers":null}}`)
			return line(got, after.Generation, after.DeletionTimestamp != nil, free, p.gone(rev))
		}, "ok 0 true ok true"},
		{"revisions have no generation and are deleted at once", func(p *probe) string {
			rev := &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "probe-"},
				Data:       runtime.RawExtension{Raw: json.RawMessage(`{"a":1}`)}, Revision: 1,
			}
			p.must(p.Create(p.ctx, rev))
			got := p.patch(rev, "", types.MergePatchType, uidPatch(rev.UID, "")[:len(uidPatch(rev.UID, ""))-1]+`,"revision":2}`)
			after := fresh(p, rev)
			data := p.patch(rev, "", types.MergePatchType, `{"data":{"a":2}}`)
			return line(got, after.Generation, after.Revision, data, outcome(p.Delete(p.ctx, rev)), p.gone(rev))
		}, "ok 0 2 422 Invalid data ok true"},
	}
}
