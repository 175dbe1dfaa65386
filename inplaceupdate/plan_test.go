package inplaceupdate_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

type template = corev1.PodTemplateSpec

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func fromLabel(name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + key + "']"}}}
}

func fromAnnotation(name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + key + "']"}}}
}

// newTemplate has two containers, a native sidecar and a plain init container. The Pod is Burstable.
func newTemplate(edits ...func(*template)) *template {
	t := &template{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "a"}, Finalizers: []string{"f/1"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "ssd"},
			Volumes:      []corev1.Volume{{Name: "data"}},
			InitContainers: []corev1.Container{
				{Name: "setup", Image: "setup:v1"},
				{Name: "proxy", Image: "proxy:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{
				{
					Name: "app", Image: "app:v1", Env: []corev1.EnvVar{{Name: "X", Value: "1"}},
					Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "64Mi"), Limits: quantities("cpu", "1")},
				},
				{Name: "log", Image: "log:v1"},
			},
		},
	}
	for _, edit := range edits {
		edit(t)
	}
	return t
}

func image(container, image string) func(*template) {
	return func(t *template) {
		for _, list := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
			for i := range list {
				if list[i].Name == container {
					list[i].Image = image
				}
			}
		}
	}
}

func env(container int, vars ...corev1.EnvVar) func(*template) {
	return func(t *template) {
		t.Spec.Containers[container].Env = append(t.Spec.Containers[container].Env, vars...)
	}
}

func label(key, value string) func(*template) { return func(t *template) { t.Labels[key] = value } }

func annotation(key, value string) func(*template) {
	return func(t *template) { t.Annotations[key] = value }
}

func limits(container int, pairs ...string) func(*template) {
	return func(t *template) { t.Spec.Containers[container].Resources.Limits = quantities(pairs...) }
}

func requests(container int, pairs ...string) func(*template) {
	return func(t *template) { t.Spec.Containers[container].Resources.Requests = quantities(pairs...) }
}

func policy(name corev1.ResourceName, restart corev1.ResourceResizeRestartPolicy) func(*template) {
	return func(t *template) {
		t.Spec.Containers[0].ResizePolicy = append(t.Spec.Containers[0].ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: restart})
	}
}

func ExampleUpdater_Plan() {
	old := newTemplate()
	wanted := newTemplate(func(t *template) {
		t.Labels["team"] = "a"
		t.Spec.Containers[0].Image = "app:v2"
		t.Spec.Containers[0].Env[0].Value = "2"
		t.Spec.NodeSelector = nil
	})
	updater := mustNew(inplaceupdate.Config{})
	plan := updater.Plan(old, wanted)
	fmt.Println(plan.Possible())
	for _, why := range plan.Blocking {
		fmt.Println(why)
	}
	wanted.Spec.Containers[0].Env = old.Spec.Containers[0].Env
	wanted.Spec.NodeSelector = old.Spec.NodeSelector
	plan = updater.Plan(old, wanted)
	fmt.Println(plan.Possible(), plan.Images, *plan.Labels["team"])
	// Output:
	// false
	// ImmutableField: spec.containers[app].env[X].value: 1 -> 2: cannot change on a live Pod; recreate the Pod
	// ImmutableField: spec.nodeSelector[disk]: ssd removed: cannot change on a live Pod; recreate the Pod
	// true map[app:app:v2] a
}

func TestPossible(t *testing.T) {
	all := mustNew(inplaceupdate.Config{AllowResize: true, EnvFromMetadata: true, IgnoredEnv: []string{"SIDECARSET_VERSION"}})
	none := mustNew(inplaceupdate.Config{})
	type refs = map[string]inplaceupdate.RefMetadata
	type resources = map[string]corev1.ResourceRequirements
	values := func(pairs ...string) map[string]*string {
		out := map[string]*string{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = &pairs[i+1]
		}
		return out
	}
	zone := []func(*template){env(0, fromLabel("ZONE", "zone")), env(1, fromLabel("Z", "zone"), fromAnnotation("CFG", "cfg"))}
	with := func(edits ...func(*template)) *template { return newTemplate(append(zone[:2:2], edits...)...) }
	for _, tc := range []struct {
		name     string
		updater  *inplaceupdate.Updater
		from, to *template
		want     inplaceupdate.Plan
		off      bool // whether the update takes the Pod out of service
	}{
		{"nothing changed", all, newTemplate(), newTemplate(), inplaceupdate.Plan{}, false},
		{
			"U-2 images", all, newTemplate(), newTemplate(image("app", "app:v2"), image("log", "log:v2")),
			inplaceupdate.Plan{Images: map[string]string{"app": "app:v2", "log": "log:v2"}},
			true,
		},
		{"native sidecar's image", all, newTemplate(), newTemplate(image("proxy", "proxy:v2")), inplaceupdate.Plan{Images: map[string]string{"proxy": "proxy:v2"}}, true},
		{
			"U-3 label added, annotation replaced", all, newTemplate(), newTemplate(label("x", "1"), annotation("note", "b")),
			inplaceupdate.Plan{Labels: values("x", "1"), Annotations: values("note", "b")},
			false,
		},
		{
			"U-3 label and annotation removed", all, newTemplate(), newTemplate(func(t *template) { t.Labels, t.Annotations = nil, map[string]string{} }),
			inplaceupdate.Plan{Labels: map[string]*string{"app": nil}, Annotations: map[string]*string{"note": nil}},
			false,
		},
		{
			"U-3 finalizers", all, newTemplate(), newTemplate(func(t *template) { t.Finalizers = []string{"f/2"} }),
			inplaceupdate.Plan{AddFinalizers: []string{"f/2"}, RemoveFinalizers: []string{"f/1"}},
			false,
		},
		{
			"an empty list is no list", all, newTemplate(), newTemplate(func(t *template) { t.Spec.Tolerations, t.Spec.Containers[0].Args = []corev1.Toleration{}, []string{} }),
			inplaceupdate.Plan{},
			false,
		},
		{
			"U-5 values replaced, only those", all, newTemplate(), newTemplate(requests(0, "cpu", "0.2", "memory", "65536Ki"), limits(0, "cpu", "2")),
			inplaceupdate.Plan{Resources: resources{"app": {Requests: quantities("cpu", "200m"), Limits: quantities("cpu", "2")}}},
			false,
		},
		{"U-5 the same quantity spelled otherwise", none, newTemplate(), newTemplate(limits(0, "cpu", "1000m")), inplaceupdate.Plan{}, false},
		{
			"U-10 memory restarts, cpu changes", all, newTemplate(policy("memory", corev1.RestartContainer)),
			newTemplate(policy("memory", corev1.RestartContainer), limits(0, "cpu", "2")),
			inplaceupdate.Plan{Resources: resources{"app": {Limits: quantities("cpu", "2")}}},
			false,
		},
		{
			"U-10 cpu restarts, cpu changes", all, newTemplate(policy("cpu", corev1.RestartContainer)),
			newTemplate(policy("cpu", corev1.RestartContainer), limits(0, "cpu", "2")),
			inplaceupdate.Plan{Resources: resources{"app": {Limits: quantities("cpu", "2")}}, ResizeRestarts: true},
			true,
		},
		{
			"U-10 memory restarts, a request of it changes", all, newTemplate(policy("memory", corev1.RestartContainer)),
			newTemplate(policy("memory", corev1.RestartContainer), requests(0, "cpu", "100m", "memory", "1Gi")),
			inplaceupdate.Plan{Resources: resources{"app": {Requests: quantities("memory", "1Gi")}}, ResizeRestarts: true},
			true,
		},
		{
			"U-10 not required", all, newTemplate(policy("cpu", corev1.NotRequired)), newTemplate(policy("cpu", corev1.NotRequired), limits(0, "cpu", "2")),
			inplaceupdate.Plan{Resources: resources{"app": {Limits: quantities("cpu", "2")}}},
			false,
		},
		{
			"U-7 read by two containers", all, with(), with(label("zone", "b"), annotation("cfg", "2"), label("y", "1")),
			inplaceupdate.Plan{Labels: values("y", "1"), RefMetadata: refs{
				"app": {Labels: map[string]string{"zone": "b"}},
				"log": {Labels: map[string]string{"zone": "b"}, Annotations: map[string]string{"cfg": "2"}},
			}},
			true,
		},
		{"U-7 replaced", all, with(label("zone", "a")), with(label("zone", "b")), inplaceupdate.Plan{RefMetadata: refs{
			"app": {Labels: map[string]string{"zone": "b"}}, "log": {Labels: map[string]string{"zone": "b"}},
		}}, true},
		{"U-7 removed keys never count", all, with(label("zone", "a")), with(), inplaceupdate.Plan{Labels: map[string]*string{"zone": nil}}, false},
		{"U-7 off", none, with(), with(label("zone", "b")), inplaceupdate.Plan{Labels: values("zone", "b")}, false},
		{"U-7 another key with the same beginning", all, with(), with(label("zones", "b")), inplaceupdate.Plan{Labels: values("zones", "b")}, false},
		{"U-7 a label is no annotation", all, with(), with(label("cfg", "2")), inplaceupdate.Plan{Labels: values("cfg", "2")}, false},
		{
			"U-7 ignored env", all, newTemplate(env(0, fromAnnotation("SIDECARSET_VERSION", "v"))), newTemplate(env(0, fromAnnotation("SIDECARSET_VERSION", "v")), annotation("v", "2")),
			inplaceupdate.Plan{Annotations: values("v", "2")},
			false,
		},
		{
			"U-7 env with a value of its own", all, newTemplate(env(0, literal(fromLabel("ZONE", "zone")))),
			newTemplate(env(0, literal(fromLabel("ZONE", "zone"))), label("zone", "b")),
			inplaceupdate.Plan{Labels: values("zone", "b")},
			false,
		},
		{
			"U-7 other field references", all, newTemplate(env(0, fieldRef("metadata.name"), fieldRef("metadata.labels"))),
			newTemplate(env(0, fieldRef("metadata.name"), fieldRef("metadata.labels")), label("x", "1")),
			inplaceupdate.Plan{Labels: values("x", "1")},
			false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, to := tc.from.DeepCopy(), tc.to.DeepCopy()
			got := tc.updater.Plan(tc.from, tc.to)
			if diff := cmp.Diff(tc.want, *got, cmp.Transformer("nil", emptyIsNil)); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]*template{from, to}, []*template{tc.from, tc.to}); diff != "" {
				t.Errorf("templates were modified:\n%s", diff)
			}
			if got.TrafficOff() != tc.off {
				t.Errorf("TrafficOff = %v", got.TrafficOff())
			}
			if touches := len(tc.want.Images)+len(tc.want.Resources)+len(tc.want.RefMetadata) > 0; got.Immediate() == touches {
				t.Errorf("Immediate = %v", got.Immediate())
			}
		})
	}
}

func fieldRef(path string) corev1.EnvVar {
	return corev1.EnvVar{Name: path, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// literal also gives a variable a literal value. The kubelet uses the literal value instead of the reference.
func literal(v corev1.EnvVar) corev1.EnvVar {
	v.Value = "x"
	return v
}

func emptyIsNil(m map[string]*string) map[string]string {
	var out map[string]string
	for key, value := range m {
		if out == nil {
			out = map[string]string{}
		}
		out[key] = "removed"
		if value != nil {
			out[key] = "=" + *value
		}
	}
	return out
}

func TestBlocking(t *testing.T) {
	resize := mustNew(inplaceupdate.Config{AllowResize: true})
	guaranteed := func(cpu string) func(*template) {
		return func(t *template) {
			for i := range t.Spec.InitContainers {
				t.Spec.InitContainers[i].Resources = corev1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "1Gi")}
			}
			for i := range t.Spec.Containers {
				t.Spec.Containers[i].Resources = corev1.ResourceRequirements{
					Limits: quantities("cpu", "1", "memory", "1Gi"), Requests: quantities("cpu", "1", "memory", "1Gi"),
				}
			}
			t.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu)
		}
	}
	gpu := func(n string) func(*template) {
		return limits(0, "cpu", "1", "nvidia.com/gpu", n)
	}
	for _, tc := range []struct {
		name     string
		from, to *template
		want     []string
	}{
		{"U-2 env added", newTemplate(), newTemplate(env(0, corev1.EnvVar{Name: "Y"})), []string{"ImmutableField spec.containers[app].env[Y]"}},
		{"U-2 env removed", newTemplate(), newTemplate(func(t *template) { t.Spec.Containers[0].Env = nil }), []string{"ImmutableField spec.containers[app].env[X]"}},
		{"U-2 env changed", newTemplate(), newTemplate(func(t *template) { t.Spec.Containers[0].Env[0].Value = "2" }), []string{"ImmutableField spec.containers[app].env[X].value"}},
		{"U-2 volume added", newTemplate(), newTemplate(func(t *template) { t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "tmp"}) }), []string{"ImmutableField spec.volumes[tmp]"}},
		{"U-2 volume changed", newTemplate(), newTemplate(func(t *template) {
			t.Spec.Volumes[0].EmptyDir = &corev1.EmptyDirVolumeSource{}
		}), []string{"ImmutableField spec.volumes[data].emptyDir"}},
		{"U-2 image of a plain init container", newTemplate(), newTemplate(image("setup", "setup:v2")), []string{"InitContainerImage spec.initContainers[setup].image"}},
		{"U-2 a sidecar that was a plain init container", newTemplate(), newTemplate(image("setup", "setup:v2"), func(t *template) {
			t.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}), []string{"InitContainerImage spec.initContainers[setup].image", "ImmutableField spec.initContainers[setup].restartPolicy"}},
		{
			"U-2 container added", newTemplate(), newTemplate(func(t *template) { t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "new"}) }),
			[]string{"ContainersChanged spec.containers"},
		},
		{"U-2 container removed", newTemplate(), newTemplate(func(t *template) { t.Spec.Containers = t.Spec.Containers[:1] }), []string{"ContainersChanged spec.containers"}},
		{"U-2 all init containers removed", newTemplate(), newTemplate(func(t *template) { t.Spec.InitContainers = nil }), []string{"ContainersChanged spec.initContainers"}},
		{"U-2 the first init container added", newTemplate(func(t *template) { t.Spec.InitContainers = nil }), newTemplate(), []string{"ContainersChanged spec.initContainers"}},
		{"U-2 containers in another order, and another image", newTemplate(), newTemplate(image("setup", "setup:v2"), func(t *template) {
			t.Spec.Containers[0], t.Spec.Containers[1] = t.Spec.Containers[1], t.Spec.Containers[0]
		}), []string{"ContainersChanged spec.containers", "InitContainerImage spec.initContainers[setup].image"}},
		{"U-2 container removed, env of another changed", newTemplate(), newTemplate(func(t *template) {
			t.Spec.Containers = t.Spec.Containers[:1]
			t.Spec.Containers[0].Env[0].Value = "2"
		}), []string{"ContainersChanged spec.containers", "ImmutableField spec.containers[app].env[X].value"}},
		{"U-2 node selector", newTemplate(), newTemplate(func(t *template) { t.Spec.NodeSelector["disk"] = "hdd" }), []string{"ImmutableField spec.nodeSelector[disk]"}},
		{"U-2 list without names", newTemplate(), newTemplate(func(t *template) { t.Spec.Tolerations = []corev1.Toleration{{Key: "x"}} }), []string{"ImmutableField spec.tolerations[0]"}},
		{"U-2 arguments", newTemplate(), newTemplate(func(t *template) { t.Spec.Containers[1].Args = []string{"-v"} }), []string{"ImmutableField spec.containers[log].args"}},
		{"U-2 env in another order", newTemplate(env(0, corev1.EnvVar{Name: "Y"})), newTemplate(func(t *template) {
			t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "Y"}, {Name: "X", Value: "1"}}
		}), []string{"ImmutableField spec.containers[app].env"}},
		{"U-3 other metadata", newTemplate(), newTemplate(func(t *template) { t.GenerateName = "x" }), []string{"ImmutableField metadata.generateName"}},
		{"U-5 limit added", newTemplate(), newTemplate(limits(0, "cpu", "1", "memory", "1Gi")), []string{"ResourceSetChanged spec.containers[app].resources.limits[memory]"}},
		{"U-5 request removed", newTemplate(), newTemplate(requests(0, "cpu", "100m")), []string{"ResourceSetChanged spec.containers[app].resources.requests[memory]"}},
		{"U-5 other resource", newTemplate(gpu("1")), newTemplate(gpu("2")), []string{"ResourceNotResizable spec.containers[app].resources.limits[nvidia.com/gpu]"}},
		{
			"U-5 claims", newTemplate(), newTemplate(func(t *template) { t.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "c"}} }),
			[]string{"ImmutableField spec.containers[app].resources.claims[c]"},
		},
		{
			"U-5 resources of a plain init container", newTemplate(), newTemplate(func(t *template) { t.Spec.InitContainers[0].Resources.Limits = quantities("cpu", "1") }),
			[]string{"ImmutableField spec.initContainers[setup].resources.limits[cpu]"},
		},
		{"U-5 QoS class", newTemplate(guaranteed("1")), newTemplate(guaranteed("500m")), []string{"QOSClassWouldChange spec.containers[*].resources"}},
		{"U-5 QoS class, to Guaranteed", newTemplate(guaranteed("500m")), newTemplate(guaranteed("1")), []string{"QOSClassWouldChange spec.containers[*].resources"}},
		{"U-5 QoS class, from an explicit zero", newTemplate(guaranteed("0")), newTemplate(guaranteed("1")), []string{"QOSClassWouldChange spec.containers[*].resources"}},
		{
			"U-10 resize policy", newTemplate(policy("cpu", corev1.NotRequired)), newTemplate(policy("cpu", corev1.RestartContainer)),
			[]string{"ImmutableField spec.containers[app].resizePolicy[0].restartPolicy"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := resize.Plan(tc.from, tc.to)
			if diff := cmp.Diff(tc.want, codesAndPaths(plan.Blocking)); diff != "" {
				t.Errorf("blocking (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(inplaceupdate.Plan{Blocking: plan.Blocking}, *plan); diff != "" {
				t.Errorf("a plan that is not possible delivers something:\n%s", diff)
			}
			for _, why := range plan.Blocking {
				if why.Remedy == "" || (why.Old == "" && why.New == "") {
					t.Errorf("reason without values or remedy: %v", why)
				}
			}
		})
	}
	off := mustNew(inplaceupdate.Config{})
	plan := off.Plan(newTemplate(), newTemplate(limits(0, "cpu", "2")))
	if diff := cmp.Diff([]string{"ResizeDisabled spec.containers[app].resources.limits[cpu]"}, codesAndPaths(plan.Blocking)); diff != "" {
		t.Errorf("U-2 gate off (-want +got):\n%s", diff)
	}
}

func codesAndPaths(list reason.List) []string {
	var out []string
	for _, why := range list {
		out = append(out, string(why.Code)+" "+why.Path)
	}
	return out
}

// TestReasonsAreBounded: the plan names a few blocking fields, and counts all others.
func TestReasonsAreBounded(t *testing.T) {
	volumes := func(n int) *template {
		return newTemplate(func(t *template) {
			for i := range n {
				t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i)})
			}
		})
	}
	for _, tc := range []struct {
		fields, reasons int
		last            string
	}{
		{20, 20, "ImmutableField: spec.volumes[v19]: {\"name\":\"v19\"}: cannot change on a live Pod; recreate the Pod"},
		{21, 21, "ImmutableField: and 1 more that cannot change on a live Pod; recreate the Pod"},
		{30, 21, "ImmutableField: and 10 more that cannot change on a live Pod; recreate the Pod"},
	} {
		list := mustNew(inplaceupdate.Config{}).Plan(newTemplate(), volumes(tc.fields)).Blocking
		if last := list[len(list)-1].String(); len(list) != tc.reasons || last != tc.last {
			t.Errorf("%d fields: %d reasons, the last is %q; want %d and %q", tc.fields, len(list), last, tc.reasons, tc.last)
		}
	}
	// The limit of named fields holds for all lists of the template together.
	both := volumes(30)
	both.Spec.Tolerations = []corev1.Toleration{{Key: "a"}, {Key: "b"}}
	both.Spec.Containers[0].Env = nil
	if text := newUpdater().Plan(newTemplate(), both).Blocking.String(); !strings.Contains(text, "and 13 more that") {
		t.Errorf("33 fields: %s", text)
	}
}

func newRevision(t testing.TB, uid types.UID, template *template) *appsv1.ControllerRevision {
	t.Helper()
	data, err := revision.Encode(template)
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-" + string(uid), UID: uid}, Data: runtime.RawExtension{Raw: data}}
}

func raw(uid types.UID, data string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-" + string(uid), UID: uid}, Data: runtime.RawExtension{Raw: []byte(data)}}
}

func TestPlanner(t *testing.T) {
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	const claimsChanged reason.Code = "ClaimsChanged"
	refuse := func(from, to *appsv1.ControllerRevision) reason.List {
		if from.Annotations["claims"] != to.Annotations["claims"] {
			return reason.List{{Code: claimsChanged, Path: "metadata.annotations[claims]"}}
		}
		return nil
	}
	otherClaims := newRevision(t, "4", newTemplate(image("app", "app:v2")))
	otherClaims.Annotations = map[string]string{"claims": "7"}
	const data = `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"a"}]}}`
	for _, tc := range []struct {
		name     string
		from, to *appsv1.ControllerRevision
		want     []string
	}{
		{"U-1 the Pod's revision is not known", nil, v2, []string{"RevisionMissing metadata.labels"}},
		{"U-1 the Pod's revision cannot be read", raw("b", "{}"), v2, []string{"UnreadableRevision data"}},
		{"U-1 the target cannot be read", v1, raw("b", "{}"), []string{"UnreadableRevision data"}},
		{"U-2 possible", v1, v2, nil},
		{"U-4 outside the template", raw("o1", data+`}}`), raw("o2", data+`,"x":1}}`), []string{"OutsideTemplate data"}},
		{"U-4 beside the spec", raw("o1", data+`}}`), raw("o3", data+`},"x":1}`), []string{"OutsideTemplate data"}},
		{"U-4 the same outside", raw("o2", data+`,"x":1}}`), raw("o4", data+`,"x":1}}`), nil},
		{"U-6 reasons of the caller", v1, otherClaims, []string{"ClaimsChanged metadata.annotations[claims]"}},
		{"U-6 none of the caller's", newRevision(t, "5", newTemplate()), v2, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), refuse)
			got := planner.Plan(tc.from, tc.to)
			if diff := cmp.Diff(tc.want, codesAndPaths(got.Blocking)); diff != "" {
				t.Errorf("blocking (-want +got):\n%s", diff)
			}
			if len(tc.want) > 0 && len(got.Images) > 0 {
				t.Errorf("a plan that is not possible has images: %v", got.Images)
			}
		})
	}
}

func TestPlannerKeepsPlans(t *testing.T) {
	asked := 0
	count := func(_, _ *appsv1.ControllerRevision) reason.List { asked++; return nil }
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), count)
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	if first := planner.Plan(v1, v2); first != planner.Plan(v1, v2) || asked != 1 {
		t.Errorf("the second Pod of a pair is planned again: %d times", asked)
	}
	if back := planner.Plan(v2, v1); back.Images["app"] != "app:v1" || asked != 2 {
		t.Errorf("the way back = %+v", back)
	}
	if n := testing.AllocsPerRun(10, func() { planner.Plan(v1, v2) }); n != 0 {
		t.Errorf("%v allocations for a known pair, want none", n)
	}
	rewritten := v2.DeepCopy() // its annotations; the caller's reasons may depend on annotations
	rewritten.ResourceVersion = "9"
	for range 3 {
		planner.Plan(v1, rewritten)
	}
	if asked != 3 {
		t.Errorf("planned %d times, want once more for the revision that was written", asked)
	}
	// For a prediction, the revisions do not exist yet. All such revisions have the same, empty UID.
	for _, to := range []string{"app:v3", "app:v4"} {
		if got := planner.Plan(v1, newRevision(t, "", newTemplate(image("app", to)))); got.Images["app"] != to {
			t.Errorf("plan to %s sets %s", to, got.Images["app"])
		}
	}
}

// TestPlannerForgets: a Planner removes old plans from its cache, because a Planner lives as long as its process, and
// users create new revisions all the time.
func TestPlannerForgets(t *testing.T) {
	asked := map[types.UID]int{}
	count := func(from, _ *appsv1.ControllerRevision) reason.List { asked[from.UID]++; return nil }
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(2, nil), count)
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	planner.Plan(v1, v2)
	for i := range 10_000 {
		old := v1.DeepCopy()
		old.UID = types.UID(strconv.Itoa(100 + i))
		planner.Plan(old, v2)
	}
	for i := range 10_000 { // a single revision, rewritten many times
		old := v2.DeepCopy()
		old.ResourceVersion = strconv.Itoa(i)
		planner.Plan(old, v2)
	}
	if planner.Plan(v1, v2); asked["1"] != 2 {
		t.Errorf("the first of 10,000 pairs was planned %d times, want it forgotten", asked["1"])
	}
}

func TestPlannerIsSafeForConcurrentUse(t *testing.T) {
	planner := inplaceupdate.NewPlanner(mustNew(inplaceupdate.Config{}), revision.NewDecoder(10, nil), nil)
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if plan := planner.Plan(v1, v2); plan.Images["app"] != "app:v2" {
				t.Errorf("plan %+v", plan)
			}
		})
	}
	group.Wait()
}

// TestPlannerNeverGuesses: if an argument is missing, the plan has a reason and so makes the update impossible: a
// plan without reasons would count as possible.
func TestPlannerNeverGuesses(t *testing.T) {
	v1, v2 := newRevision(t, "1", newTemplate()), newRevision(t, "2", newTemplate(image("app", "app:v2")))
	updater, decoder := newUpdater(), revision.NewDecoder(10, nil)
	for _, tc := range []struct {
		name     string
		planner  *inplaceupdate.Planner
		from, to *appsv1.ControllerRevision
		want     reason.Code
	}{
		{"no updater", inplaceupdate.NewPlanner(nil, decoder, nil), v1, v2, inplaceupdate.InvalidConfig},
		{"no decoder", inplaceupdate.NewPlanner(updater, nil, nil), v1, v2, inplaceupdate.InvalidConfig},
		{"the zero value", &inplaceupdate.Planner{}, v1, v2, inplaceupdate.InvalidConfig},
		{"no target", inplaceupdate.NewPlanner(updater, decoder, nil), v1, nil, inplaceupdate.RevisionMissing},
	} {
		if plan := tc.planner.Plan(tc.from, tc.to); plan.Possible() || !errors.Is(plan.Blocking, tc.want) {
			t.Errorf("%s: blocking %v, want %s", tc.name, plan.Blocking, tc.want)
		}
	}
	if list := inplaceupdate.Undecodable(errors.New("broken")); !errors.Is(list, revision.UnreadableRevision) {
		t.Errorf("an error without reasons: %v", list)
	}
}
