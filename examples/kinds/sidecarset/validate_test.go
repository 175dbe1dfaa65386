package sidecarset

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type edit = func(*v1beta1.SidecarSet)

// valid returns a valid, defaulted object, after edits. The containers are a and b, the init container is i.
func valid(t testing.TB, edits ...edit) *v1beta1.SidecarSet {
	t.Helper()
	obj := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "mesh"}}
	obj.Spec.Selector = matching("mesh", "on")
	obj.Spec.Containers = []pub.SidecarContainer{sidecar("a"), sidecar("b")}
	obj.Spec.InitContainers = []pub.SidecarContainer{sidecar("i")}
	if err := api.Default(obj); err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func sidecar(name string) pub.SidecarContainer {
	return pub.SidecarContainer{Container: corev1.Container{Name: name, Image: name + ":v1"}}
}

func first(edit func(*pub.SidecarContainer)) edit {
	return func(obj *v1beta1.SidecarSet) { edit(&obj.Spec.Containers[0]) }
}

func firstInit(edit func(*pub.SidecarContainer)) edit {
	return func(obj *v1beta1.SidecarSet) { edit(&obj.Spec.InitContainers[0]) }
}

func strategy(edit func(*pub.SidecarSetUpdateStrategy)) edit {
	return func(obj *v1beta1.SidecarSet) { edit(&obj.Spec.UpdateStrategy) }
}

func hot(c *pub.SidecarContainer) {
	c.UpgradeStrategy = pub.SidecarUpgradeStrategy{UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: "empty:v1"}
}

func named(name string) edit { return func(obj *v1beta1.SidecarSet) { obj.Name = name } }

func patchedBy(list ...pub.SidecarSetPatchPodMetadata) edit {
	return func(obj *v1beta1.SidecarSet) { obj.Spec.PatchPodMetadata = list }
}

func patch(policy pub.SidecarSetPatchPolicy, keys ...string) pub.SidecarSetPatchPodMetadata {
	out := pub.SidecarSetPatchPodMetadata{PatchPolicy: policy, Annotations: map[string]string{}}
	for _, key := range keys {
		out.Annotations[key] = "{}"
	}
	return out
}

func sized(cpu string) func(*pub.SidecarContainer) {
	return func(c *pub.SidecarContainer) {
		c.ResourcesPolicy = &pub.SidecarResourcesPolicy{
			TargetContainersMode: pub.TargetContainersSum, TargetContainersNameRegex: ".*",
			ResourcesExpr: pub.SidecarResourcesExpr{Limits: &pub.SidecarResourceExprs{CPU: cpu}},
		}
	}
}

func source(apiVersion, path string) func(*pub.SidecarContainer) {
	return func(c *pub.SidecarContainer) {
		c.TransferEnv = []pub.TransferEnvVar{{SourceContainerNameFrom: &pub.SourceContainerNameSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: apiVersion, FieldPath: path},
		}}}
	}
}

// check compares the beginnings of the errors with the wanted beginnings.
func check(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	got := []string{}
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if len(got) == len(want) {
		for i := range want {
			if strings.HasPrefix(got[i], want[i]) {
				got[i] = want[i]
			}
		}
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidateCreate(t *testing.T) {
	const c0 = "spec.containers[0]."
	always := new(corev1.ContainerRestartPolicyAlways)
	number, text := new(intstr.FromInt32(5)), new(intstr.FromString("5"))
	for _, tc := range []struct {
		name string
		edit edit
		want []string
	}{
		{"as it should be", func(*v1beta1.SidecarSet) {}, nil},
		{"SC-62 no name", named(""), []string{"metadata.name: Required value"}},
		{"SC-62 the longest name", named(strings.Repeat("a", 63)), nil},
		{"SC-62 too long", named(strings.Repeat("a", 64)), []string{"metadata.name: Invalid value", "metadata.name: Too long"}},
		{"SC-62 a dot", named("a.b"), []string{`metadata.name: Invalid value: "a.b"`}},
		{"SC-62 generateName leaves room", func(obj *v1beta1.SidecarSet) { obj.Name, obj.GenerateName = "", strings.Repeat("a", 59) }, []string{"metadata.generateName: Too long"}},
		{"1.2 no selector", func(obj *v1beta1.SidecarSet) { obj.Spec.Selector = nil }, []string{"spec.selector: Required value"}},
		{"1.2 an empty selector", func(obj *v1beta1.SidecarSet) { obj.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Required value"}},
		{"1.2 a bad selector", func(obj *v1beta1.SidecarSet) { obj.Spec.Selector = matching("a", "%") }, []string{`spec.selector.matchLabels: Invalid value: "%"`}},
		{"1.2 an empty namespaceSelector", func(obj *v1beta1.SidecarSet) { obj.Spec.NamespaceSelector = &metav1.LabelSelector{} }, []string{"spec.namespaceSelector: Required value"}},
		{"1.2 a namespaceSelector", func(obj *v1beta1.SidecarSet) { obj.Spec.NamespaceSelector = matching("a", "b") }, nil},
		{"selectors that nobody reads through", func(obj *v1beta1.SidecarSet) {
			obj.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: make([]string, 1000)}}}
			obj.Spec.NamespaceSelector, obj.Spec.UpdateStrategy.Selector = obj.Spec.Selector, obj.Spec.Selector
		}, []string{"spec.selector: Too many", "spec.namespaceSelector: Too many", "spec.updateStrategy.selector: Too many"}},
		{"1.2 no container", func(obj *v1beta1.SidecarSet) { obj.Spec.Containers, obj.Spec.InitContainers = nil, nil }, []string{"spec.containers: Required value"}},
		{"1.2 init containers alone", func(obj *v1beta1.SidecarSet) { obj.Spec.Containers = nil }, nil},
		{"SC-66 a name twice", first(func(c *pub.SidecarContainer) { c.Name = "b" }), []string{`spec.containers[1].name: Invalid value: "b": takes the name b in Pods, as containers[b] does`}},
		{"SC-65 an init container's name", first(func(c *pub.SidecarContainer) { c.Name = "i" }), []string{`spec.containers[0].name: Invalid value: "i": takes the name i in Pods, as initContainers[i] does`}},
		{"SC-65 a hot container's name", func(obj *v1beta1.SidecarSet) {
			hot(&obj.Spec.Containers[0])
			obj.Spec.Containers[1].Name = "a-2"
		}, []string{`spec.containers[1].name: Invalid value: "a-2": takes the name a-2 in Pods, as containers[a] does`}},
		{"1.2 podInjectPolicy", first(func(c *pub.SidecarContainer) { c.PodInjectPolicy = "Beside" }), []string{c0 + `podInjectPolicy: Unsupported value: "Beside"`}},
		{"1.2 shareVolumePolicy", first(func(c *pub.SidecarContainer) { c.ShareVolumePolicy.Type = "on" }), []string{c0 + `shareVolumePolicy.type: Unsupported value: "on"`}},
		{"shareVolumeDevicePolicy", first(func(c *pub.SidecarContainer) {
			c.ShareVolumeDevicePolicy = &pub.ShareVolumePolicy{Type: "on"}
		}), []string{c0 + `shareVolumeDevicePolicy.type: Unsupported value: "on"`}},
		{"1.2 an empty shareVolumeDevicePolicy", first(func(c *pub.SidecarContainer) { c.ShareVolumeDevicePolicy = &pub.ShareVolumePolicy{} }), nil},
		{"an unknown upgradeType", first(func(c *pub.SidecarContainer) { c.UpgradeStrategy.UpgradeType = "Warm" }), []string{c0 + `upgradeStrategy.upgradeType: Unsupported value: "Warm"`}},
		{"HU-14 hot", first(hot), nil},
		{"a launch priority that is no number", first(func(c *pub.SidecarContainer) {
			c.Env = []corev1.EnvVar{{Name: "A"}, {Name: apps.EnvContainerPriority, Value: "high"}}
		}), []string{c0 + `env[1].value: Invalid value: "high": must be a number from -2147483647 to 2147483647, written out`}},
		{"a launch priority that is too low", first(func(c *pub.SidecarContainer) {
			c.Env = []corev1.EnvVar{{Name: apps.EnvContainerPriority, Value: "-2147483648"}}
		}), []string{c0 + `env[0].value: Invalid value: "-2147483648": must be a number from -2147483647 to 2147483647, written out`}},
		{"a launch priority", first(func(c *pub.SidecarContainer) {
			c.Env = []corev1.EnvVar{{Name: apps.EnvContainerPriority, Value: "-2147483647"}}
		}), nil},
		{
			"a barrier of its own", first(func(c *pub.SidecarContainer) { c.Env = []corev1.EnvVar{{Name: apps.EnvContainerBarrier, Value: "x"}} }),
			[]string{c0 + `env[0].name: Forbidden: is written by admission of Pods`},
		},
		{"annotations that no Pod has room for", patchedBy(pub.SidecarSetPatchPodMetadata{
			PatchPolicy: pub.SidecarSetRetain, Annotations: map[string]string{"a": strings.Repeat("x", 128<<10)},
		}), []string{`spec.patchPodMetadata: Too long: may not be more than 131072 bytes`}},
		{"space around an image", first(func(c *pub.SidecarContainer) { c.Image = " a:v1" }), []string{c0 + `image: Invalid value: " a:v1": must not begin or end with space`}},
		{"space around an empty image", first(func(c *pub.SidecarContainer) {
			c.UpgradeStrategy = pub.SidecarUpgradeStrategy{UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: "empty:v1 "}
		}), []string{c0 + `upgradeStrategy.hotUpgradeEmptyImage: Invalid value: "empty:v1 ": must not begin or end with space`}},
		{"HU-14 no empty image", first(func(c *pub.SidecarContainer) { c.UpgradeStrategy.UpgradeType = pub.SidecarHotUpgrade }), []string{c0 + "upgradeStrategy.hotUpgradeEmptyImage: Required value"}},
		{"HU-14 the same image", first(func(c *pub.SidecarContainer) {
			hot(c)
			c.Image = "empty:v1"
		}), []string{c0 + `upgradeStrategy.hotUpgradeEmptyImage: Invalid value: "empty:v1": must not be the image of the container`}},
		{"a host port twice", first(func(c *pub.SidecarContainer) {
			hot(c)
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 8080}}
		}), []string{c0 + `ports[1].hostPort: Invalid value: 8080`}},
		{"no room for -1", first(func(c *pub.SidecarContainer) {
			hot(c)
			c.Name = strings.Repeat("a", 62)
		}), []string{c0 + "name: Too long"}},
		{"SC-43 a hot init container", firstInit(hot), []string{`spec.initContainers[0].upgradeStrategy.upgradeType: Invalid value: "HotUpgrade"`}},
		{"SC-43 a hot native sidecar", firstInit(func(c *pub.SidecarContainer) {
			hot(c)
			c.RestartPolicy = always
		}), []string{`spec.initContainers[0].upgradeStrategy.upgradeType: Invalid value: "HotUpgrade"`}},
		{"SC-42 a native sidecar that is upgraded", firstInit(func(c *pub.SidecarContainer) { c.RestartPolicy = always }), nil},
		{"1.2 transferEnv of a label", first(source("v1", "metadata.labels['a/b']")), nil},
		{"1.2 transferEnv of an annotation", first(source("v1", "metadata.annotations['a']")), nil},
		{"1.2 transferEnv of something else", first(source("v1", "spec.nodeName")), []string{c0 + `transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Invalid value: "spec.nodeName"`}},
		{"1.2 transferEnv of no key", first(source("v1", "metadata.labels['a b']")), []string{c0 + `transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Invalid value`}},
		{"1.2 transferEnv of another version", first(source("v2", "metadata.labels['a']")), []string{c0 + `transferEnv[0].sourceContainerNameFrom.fieldRef.apiVersion: Unsupported value: "v2"`}},
		{"RP-14 a policy", first(sized("cpu*50%")), nil},
		{"RP-14 beside limits", first(func(c *pub.SidecarContainer) {
			sized("cpu")(c)
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}), []string{c0 + "resourcesPolicy: Forbidden: excludes resources.limits"}},
		{"RP-14 an empty regular expression", first(func(c *pub.SidecarContainer) {
			sized("cpu")(c)
			c.ResourcesPolicy.TargetContainersNameRegex = ""
		}), []string{c0 + `resourcesPolicy.targetContainersNameRegex: Invalid value: "": is required`}},
		{"1.2 neither limits nor requests", first(func(c *pub.SidecarContainer) {
			sized("cpu")(c)
			c.ResourcesPolicy.ResourcesExpr = pub.SidecarResourcesExpr{}
		}), []string{c0 + "resourcesPolicy.resourcesExpr: Required value"}},
		{"RP-12 two quantities", first(sized("cpu*cpu")), []string{c0 + `resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "cpu*cpu": position 4: multiplies two quantities`}},
		{"RP-12 less than one", first(sized("cpu-2")), nil},
		{"RP-12 requests", first(func(c *pub.SidecarContainer) {
			sized("cpu")(c)
			c.ResourcesPolicy.ResourcesExpr.Requests = &pub.SidecarResourceExprs{Memory: "5x"}
		}), []string{c0 + `resourcesPolicy.resourcesExpr.requests.memory: Invalid value: "5x"`}},
		{"RP-1 a policy for an init container", firstInit(sized("cpu")), []string{"spec.initContainers[0].resourcesPolicy: Forbidden"}},
		{"RP-1 a policy for a native sidecar", firstInit(func(c *pub.SidecarContainer) {
			sized("cpu")(c)
			c.RestartPolicy = always
		}), nil},
		{"an unknown type", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Type = "Recreate" }), []string{`spec.updateStrategy.type: Unsupported value: "Recreate"`}},
		{"1.2 counts in quotes", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Partition, s.MaxUnavailable = text, text }), []string{
			`spec.updateStrategy.partition: Invalid value: "5"`, `spec.updateStrategy.maxUnavailable: Invalid value: "5"`,
		}},
		{"1.2 decimals", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Partition = new(intstr.FromString("12.5%")) }), []string{`spec.updateStrategy.partition: Invalid value: "12.5%": has decimals`}},
		{"1.2 no Pod may be unavailable", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.MaxUnavailable = new(intstr.FromInt32(0)) }), nil},
		{"1.2 negative", strategy(func(s *pub.SidecarSetUpdateStrategy) {
			s.Type, s.Partition = pub.SidecarSetNotUpdate, new(intstr.FromInt32(-1))
		}), []string{`spec.updateStrategy.partition: Invalid value: -1`}},
		{"1.2 a selector", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Selector = matching("a", "b") }), nil},
		{"1.2 an empty selector of Pods to upgrade", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Selector = &metav1.LabelSelector{} }), []string{"spec.updateStrategy.selector: Required value"}},
		{"1.2 a selector and a partition", strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Selector, s.Partition = matching("a", "b"), number }), []string{"spec.updateStrategy.selector: Forbidden"}},
		{"1.2 a selector and a partition of 0%", strategy(func(s *pub.SidecarSetUpdateStrategy) {
			s.Selector, s.Partition = matching("a", "b"), new(intstr.FromString("0%"))
		}), []string{"spec.updateStrategy.selector: Forbidden"}},
		{"1.2 both are not read", strategy(func(s *pub.SidecarSetUpdateStrategy) {
			s.Type, s.Selector, s.Partition = pub.SidecarSetNotUpdate, matching("a", "b"), number
		}), nil},
		{"1.2 two orders", strategy(func(s *pub.SidecarSetUpdateStrategy) {
			s.PriorityStrategy = &pub.PriorityStrategy{
				OrderPriority: []pub.OrderPriorityTerm{{OrderedKey: "a"}}, WeightPriority: []pub.WeightPriorityTerm{{Weight: 1, MatchSelector: *matching("a", "b")}},
			}
		}), []string{"spec.updateStrategy.priorityStrategy: Forbidden"}},
		{"1.2 scatter terms", strategy(func(s *pub.SidecarSetUpdateStrategy) {
			s.ScatterStrategy = []pub.ScatterTerm{{Key: "a", Value: "b"}, {Key: "a", Value: "c"}, {Key: "a", Value: "b"}, {}}
		}), []string{"spec.updateStrategy.scatterStrategy[2]: Duplicate value", "spec.updateStrategy.scatterStrategy[3].key: Required value"}},
		{"1.2 a revision of no name", func(obj *v1beta1.SidecarSet) {
			obj.Spec.InjectionStrategy.Revision = &pub.SidecarSetInjectRevision{RevisionName: new(""), Policy: pub.InjectRevisionAlways}
		}, []string{"spec.injectionStrategy.revision: Required value"}},
		{"1.2 an unknown policy of the revision", func(obj *v1beta1.SidecarSet) {
			obj.Spec.InjectionStrategy.Revision = &pub.SidecarSetInjectRevision{CustomVersion: new("v1"), Policy: "Never"}
		}, []string{`spec.injectionStrategy.revision.policy: Unsupported value: "Never"`}},
		{"1.2 no annotations", patchedBy(patch(pub.SidecarSetRetain)), []string{"spec.patchPodMetadata[0].annotations: Required value"}},
		{"an unknown patchPolicy", patchedBy(patch("Sometimes", "a")), []string{`spec.patchPodMetadata[0].patchPolicy: Unsupported value: "Sometimes"`}},
		{"1.2 no key of an annotation", patchedBy(patch(pub.SidecarSetRetain, "a b")), []string{`spec.patchPodMetadata[0].annotations: Invalid value: "a b"`}},
		{"1.2 a key twice", patchedBy(patch(pub.SidecarSetRetain, "a"), patch(pub.SidecarSetOverwrite, "a")), []string{`spec.patchPodMetadata[1].annotations[a]: Duplicate value: "a"`}},
		{"SR-3 no value of a label", func(obj *v1beta1.SidecarSet) { obj.Spec.CustomVersion = "v 1" }, []string{`spec.customVersion: Invalid value: "v 1"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, tc.want, validateCreate(valid(t, tc.edit), nil, validateOptions{}))
		})
	}
}

// TestStoredObjectsAreValid: admission accepts updates of objects that OpenKruise has stored.
func TestStoredObjectsAreValid(t *testing.T) {
	var others []*v1beta1.SidecarSet
	for _, name := range []string{"mesh", "native"} {
		raw, err := os.ReadFile("../../apis/apps/sidecarset/testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, &v1beta1.SidecarSet{})
		if err := yaml.UnmarshalStrict(raw, others[len(others)-1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, stored := range others {
		check(t, nil, validateCreate(stored, others, validateOptions{}))
	}
}

func TestValidateUpdate(t *testing.T) {
	base := func(name string) edit {
		return func(obj *v1beta1.SidecarSet) {
			obj.Annotations[apps.AnnotationSidecarSetCanary], obj.Annotations[apps.AnnotationSidecarSetBase] = "true", name
			obj.Spec.UpdateStrategy.Type = pub.SidecarSetNotUpdate
		}
	}
	bad := func(obj *v1beta1.SidecarSet) { // at the end of each list, to be moved by removals
		obj.Spec.Containers[1].UpgradeStrategy.UpgradeType = "Warm"
		obj.Spec.PatchPodMetadata = []pub.SidecarSetPatchPodMetadata{patch("Retain", "x"), patch("Sometimes", "secret")}
		obj.Spec.UpdateStrategy.Type = "Recreate"
	}
	for _, tc := range []struct {
		name         string
		stored, next edit
		want         []string
	}{
		{"SC-60 a removal", nil, func(obj *v1beta1.SidecarSet) { obj.Spec.Containers = obj.Spec.Containers[1:] }, nil},
		{"SC-60 a new container", nil, func(obj *v1beta1.SidecarSet) {
			obj.Spec.Containers = append(obj.Spec.Containers, obj.Spec.Containers[0])
			obj.Spec.Containers[2].Name = "c"
		}, []string{"spec.containers[2].name: Forbidden: container c is new"}},
		{"SC-60 another name", nil, first(func(c *pub.SidecarContainer) { c.Name = "c" }), []string{"spec.containers[0].name: Forbidden"}},
		{"SC-60 another init container", nil, firstInit(func(c *pub.SidecarContainer) { c.Name = "j" }), nil},
		{"SC-61 from cold to hot", nil, first(hot), []string{"spec.containers[0].upgradeStrategy.upgradeType: Forbidden: cannot change from ColdUpgrade"}},
		{"SC-61 from hot to cold", first(hot), nil, []string{"spec.containers[0].upgradeStrategy.upgradeType: Forbidden: cannot change from HotUpgrade"}},
		{"SC-61 from nothing", first(func(c *pub.SidecarContainer) { c.UpgradeStrategy.UpgradeType = "" }), first(hot), nil},
		{"SC-82 another base", base("base"), base("other"), []string{"metadata.annotations[apps.kruise.io/sidecarset-base]: Forbidden"}},
		{"SC-82 a base", nil, base("base"), []string{"metadata.annotations[apps.kruise.io/sidecarset-base]: Forbidden"}},
		{"SC-82 the same base", base("base"), base("base"), nil},
		{"SC-62 the name is not looked at", named("a.b"), named("a.b"), nil},
		{"what is stored is no reason", bad, func(obj *v1beta1.SidecarSet) {
			bad(obj)
			obj.Spec.Containers, obj.Spec.PatchPodMetadata = obj.Spec.Containers[1:], obj.Spec.PatchPodMetadata[1:]
		}, nil},
		{"what is stored, and more", bad, func(obj *v1beta1.SidecarSet) {
			bad(obj)
			obj.Spec.Containers[0].PodInjectPolicy = "Beside"
		}, []string{`spec.containers[0].podInjectPolicy: Unsupported value: "Beside"`}},
		{"HU-14 the empty image's turn", first(hot), func(obj *v1beta1.SidecarSet) {
			hot(&obj.Spec.Containers[0])
			obj.Spec.Containers[0].Image = "empty:v1"
		}, []string{`spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage: Invalid value: "empty:v1"`}},
		{"a new problem", nil, strategy(func(s *pub.SidecarSetUpdateStrategy) { s.Type = "Recreate" }), []string{"spec.updateStrategy.type: Unsupported value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stored, next := valid(t), valid(t)
			if tc.stored != nil {
				tc.stored(stored)
			}
			if tc.next != nil {
				tc.next(next)
			}
			others := []*v1beta1.SidecarSet{valid(t, named("base"), away), valid(t, named("other"), away)}
			check(t, tc.want, validateUpdate(next, stored, others, validateOptions{}))
		})
	}
}

// away makes a SidecarSet select other Pods.
func away(obj *v1beta1.SidecarSet) { obj.Spec.Selector = matching("mesh", "off") }

func TestAnnotationRules(t *testing.T) {
	const text = `{"rules":[{"allowedAnnotationKeyExprs":["^oom-score$"]},{"selector":{"matchLabels":{"team":"mesh"}},"allowedAnnotationKeyExprs":["^mesh\\..*"]}]}`
	team := func(obj *v1beta1.SidecarSet) { obj.Labels = map[string]string{"team": "mesh"} }
	refused := func(keys ...string) (out []string) {
		for _, key := range keys {
			out = append(out, "spec.patchPodMetadata[0].annotations["+key+"]: Forbidden: is not allowed by SidecarSet_PatchPodMetadata_WhiteList of ConfigMap kruise-configuration")
		}
		return out
	}
	for _, tc := range []struct {
		name, text string
		lenient    bool
		edit       edit
		keys       []string
		want       []string
	}{
		{name: "SC-50 allowed to all", text: text, keys: []string{"oom-score"}},
		{name: "SC-51 not to this one", text: text, keys: []string{"mesh.x", "oom-score"}, want: refused("mesh.x")},
		{name: "SC-51 to this one", text: text, edit: team, keys: []string{"mesh.x", "oom-score"}},
		{name: "SC-51 each key", text: text, edit: team, keys: []string{"x.mesh", "y"}, want: refused("x.mesh", "y")},
		{name: "SC-51 a part of the key", text: `{"rules":[{"allowedAnnotationKeyExprs":["esh"]}]}`, keys: []string{"mesh.x"}},
		{name: "SC-51 an empty selector", text: `{"rules":[{"selector":{},"allowedAnnotationKeyExprs":["mesh"]}]}`, keys: []string{"mesh.x"}},
		{name: "SC-52 no rules", keys: []string{"a"}, want: refused("a")},
		{name: "SC-52 no expression", text: `{"rules":[{}]}`, keys: []string{"a"}, want: refused("a")},
		{name: "SC-52 no rules, lenient", lenient: true, keys: []string{"a"}},
		{name: "SC-52 no rule for this one, lenient", text: `{"rules":[{"selector":{"matchLabels":{"team":"mesh"}},"allowedAnnotationKeyExprs":["b"]}]}`, lenient: true, keys: []string{"a"}},
		{name: "SC-52 rules, lenient", text: text, lenient: true, keys: []string{"a"}, want: refused("a")},
		{name: "SC-52 nothing to allow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := parseAnnotationRules(tc.text, tc.lenient)
			if err != nil {
				t.Fatal(err)
			}
			obj := valid(t)
			if tc.edit != nil {
				tc.edit(obj)
			}
			if len(tc.keys) > 0 {
				obj.Spec.PatchPodMetadata = []pub.SidecarSetPatchPodMetadata{patch(pub.SidecarSetRetain, tc.keys...)}
			}
			check(t, tc.want, validateCreate(obj, nil, validateOptions{annotations: rules}))
			check(t, nil, validateUpdate(obj, obj, nil, validateOptions{annotations: rules}))
			more := obj.DeepCopy()
			if len(tc.keys) > 0 {
				more.Spec.PatchPodMetadata[0].Annotations["zz"] = ""
				if got := validateUpdate(more, obj, nil, validateOptions{annotations: rules}); tc.want != nil && len(got) != 1 {
					t.Errorf("one more key: %v", got)
				}
			}
		})
	}
	for text, want := range map[string]string{
		`{`: "SidecarSet_PatchPodMetadata_WhiteList: ",
		`{"rules":[{},{"allowedAnnotationKeyExprs":["a","("]}]}`:          "SidecarSet_PatchPodMetadata_WhiteList: rules[1].allowedAnnotationKeyExprs[1]: ",
		`{"rules":[{"selector":{"matchExpressions":[{"key":"a"}]}}]}`:     "SidecarSet_PatchPodMetadata_WhiteList: rules[0].selector: ",
		`{"rules":[{"allowedAnnotationKeyExprs":"oom-score","x":false}]}`: "SidecarSet_PatchPodMetadata_WhiteList: ",
	} {
		if _, err := parseAnnotationRules(text, false); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestConflicts(t *testing.T) {
	canary := func(name, base string) edit {
		return func(obj *v1beta1.SidecarSet) {
			obj.Name = name
			obj.Annotations[apps.AnnotationSidecarSetCanary], obj.Annotations[apps.AnnotationSidecarSetBase] = "true", base
			obj.Spec.UpdateStrategy.Type = pub.SidecarSetNotUpdate
		}
	}
	// only keeps a single container, and nothing that other SidecarSets also use.
	only := func(name string, edits ...func(*pub.SidecarContainer)) edit {
		return func(obj *v1beta1.SidecarSet) {
			obj.Spec.InitContainers, obj.Spec.Containers = nil, obj.Spec.Containers[:1]
			obj.Spec.Containers[0].Name = name
			for _, edit := range edits {
				edit(&obj.Spec.Containers[0])
			}
		}
	}
	onlyInit := func(name string) edit {
		return func(obj *v1beta1.SidecarSet) {
			obj.Spec.Containers = nil
			obj.Spec.InitContainers[0].Name = name
		}
	}
	volume := func(container, path string) edit {
		return func(obj *v1beta1.SidecarSet) {
			only(container)(obj)
			obj.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}}
		}
	}
	patched := func(container string, policy pub.SidecarSetPatchPolicy) edit {
		return func(obj *v1beta1.SidecarSet) {
			only(container)(obj)
			obj.Spec.PatchPodMetadata = []pub.SidecarSetPatchPodMetadata{patch(policy, "k")}
		}
	}
	const by = "; SidecarSet other is for some of the same Pods"
	for _, tc := range []struct {
		name      string
		obj       edit
		other     edit
		want      []string
		otherName string
	}{
		{name: "SC-63 nothing in common", obj: only("x"), other: only("y")},
		{name: "SC-63 a container", obj: only("x"), other: only("x"), want: []string{`spec.containers[0].name: Invalid value: "x": is taken by containers[x]` + by}},
		{name: "SC-63 an init container", obj: onlyInit("x"), other: onlyInit("x"), want: []string{`spec.initContainers[0].name: Invalid value: "x": is taken by initContainers[x]` + by}},
		{name: "SC-65 an init container and a container", obj: onlyInit("x"), other: only("x"), want: []string{`spec.initContainers[0].name: Invalid value: "x": is taken by containers[x]` + by}},
		{name: "SC-65 a container and an init container", obj: only("x"), other: onlyInit("x"), want: []string{`spec.containers[0].name: Invalid value: "x": is taken by initContainers[x]` + by}},
		{name: "SC-65 a hot one's second", obj: only("x-2"), other: only("x", hot), want: []string{`spec.containers[0].name: Invalid value: "x-2": is taken by containers[x]` + by}},
		{name: "SC-65 hot, and another's name is that of the first", obj: only("x", hot), other: only("x-1"), want: []string{`spec.containers[0].name: Invalid value: "x-1": is taken by containers[x-1]` + by}},
		{name: "SC-65 two hot ones", obj: only("x", hot), other: only("x", hot), want: []string{`spec.containers[0].name: Invalid value: "x": is taken by containers[x]` + by}},
		{name: "SC-63 the same volume", obj: volume("x", "/v"), other: volume("y", "/v")},
		{name: "SC-63 another volume", obj: volume("x", "/v"), other: volume("y", "/w"), want: []string{`spec.volumes[0]: Invalid value: "v": is another volume there` + by}},
		{name: "SC-63 Retain and Overwrite", obj: patched("x", pub.SidecarSetRetain), other: patched("y", pub.SidecarSetOverwrite)},
		{name: "SC-63 Overwrite and Retain", obj: patched("x", pub.SidecarSetOverwrite), other: patched("y", pub.SidecarSetRetain)},
		{name: "SC-63 two merges", obj: patched("x", pub.SidecarSetMergePatchJSON), other: patched("y", pub.SidecarSetMergePatchJSON)},
		{
			name: "SC-63 Overwrite and a merge", obj: patched("x", pub.SidecarSetOverwrite), other: patched("y", pub.SidecarSetMergePatchJSON),
			want: []string{`spec.patchPodMetadata[0].annotations[k]: Invalid value: "Overwrite": is set with MergePatchJson there` + by},
		},
		{
			name: "SC-63 two Overwrites", obj: patched("x", pub.SidecarSetOverwrite), other: patched("y", pub.SidecarSetOverwrite),
			want: []string{`spec.patchPodMetadata[0].annotations[k]: Invalid value: "Overwrite": is set with Overwrite there` + by},
		},
		{name: "SC-64 other Pods", obj: only("x"), other: func(obj *v1beta1.SidecarSet) { only("x")(obj); away(obj) }},
		{name: "the object itself", obj: only("x"), other: only("x"), otherName: "mesh"},
		{name: "SC-83 the canary is written", obj: canary("mesh", "other"), other: nil},
		{name: "SC-83 the base is written", obj: nil, other: canary("other", "mesh")},
		{
			name: "SC-83 two canaries", obj: func(obj *v1beta1.SidecarSet) { canary("mesh", "base")(obj); only("x")(obj) },
			other: func(obj *v1beta1.SidecarSet) { canary("other", "base")(obj); only("x")(obj) },
			want:  []string{`spec.containers[0].name: Invalid value: "x": is taken by containers[x]` + by},
		},
		{name: "SC-82 itself as base", obj: canary("mesh", "mesh"), other: away, want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "mesh": must be another SidecarSet`}},
		{name: "SC-82 no base", obj: canary("mesh", "none"), other: away, want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Not found: "none"`}},
		{name: "SC-82 the base is a canary", obj: canary("mesh", "other"), other: canary("other", "base"), want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "other": must not stand in`}},
		{name: "SC-82 a canary that upgrades", obj: func(obj *v1beta1.SidecarSet) {
			canary("mesh", "other")(obj)
			obj.Spec.UpdateStrategy.Type = pub.SidecarSetRollingUpdate
		}, want: []string{`spec.updateStrategy.type: Invalid value: "RollingUpdate": must be NotUpdate`}},
		{name: "SC-80 one annotation makes no canary", obj: func(obj *v1beta1.SidecarSet) {
			only("x")(obj)
			obj.Annotations[apps.AnnotationSidecarSetBase] = "other"
		}, other: only("x"), want: []string{`spec.containers[0].name: Invalid value: "x": is taken by containers[x]` + by}},
		{name: "each one", obj: nil, other: func(obj *v1beta1.SidecarSet) { obj.Spec.Containers = obj.Spec.Containers[:1] }, want: []string{
			`spec.initContainers[0].name: Invalid value: "i": is taken by initContainers[i]` + by, `spec.containers[0].name: Invalid value: "a": is taken by containers[a]` + by,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj, other := valid(t), valid(t, named("other"))
			if tc.obj != nil {
				tc.obj(obj)
			}
			if tc.other != nil {
				tc.other(other)
			}
			if tc.otherName != "" {
				other.Name = tc.otherName
			}
			others := []*v1beta1.SidecarSet{valid(t, named("base"), away), other}
			check(t, tc.want, validateCreate(obj, others, validateOptions{}))
			if len(tc.want) > 0 { // A stored conflict can be edited, and moved.
				next := obj.DeepCopy()
				slices.Reverse(next.Spec.Containers)
				check(t, nil, validateUpdate(next, obj, others, validateOptions{}))
			}
		})
	}
	t.Run("twice the same name, stored", func(t *testing.T) {
		twice := func(obj *v1beta1.SidecarSet) {
			hot(&obj.Spec.Containers[0])
			obj.Spec.Containers[1].Name = "a"
		}
		other := valid(t, named("other"), only("a", hot))
		check(t, nil, validateUpdate(valid(t, twice), valid(t, twice), []*v1beta1.SidecarSet{other}, validateOptions{}))
	})
	t.Run("others that are not known", func(t *testing.T) {
		check(t, nil, validateCreate(valid(t, canary("mesh", "base")), nil, validateOptions{othersUnknown: true}))
	})
}

func TestOverlap(t *testing.T) {
	expr := func(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	for _, tc := range []struct {
		name string
		a, b *metav1.LabelSelector
		want bool
	}{
		{"SC-64 equal", matching("a", "b"), matching("a", "b"), true},
		{"SC-64 two values", matching("a", "b"), matching("a", "c"), false},
		{"SC-64 two keys", matching("a", "b"), matching("c", "d"), true},
		{"SC-64 in and notin", expr("a", "In", "b"), expr("a", "NotIn", "b", "c"), false},
		{"SC-64 one of in is left", expr("a", "In", "b", "d"), expr("a", "NotIn", "b", "c"), true},
		{"SC-64 a value and absent", matching("a", "b"), expr("a", "DoesNotExist"), false},
		{"SC-64 a value and in", matching("a", "b"), expr("a", "In", "b", "c"), true},
		{"SC-64 in and in", expr("a", "In", "b", "c"), expr("a", "In", "c", "d"), true},
		{"SC-64 in and other in", expr("a", "In", "b"), expr("a", "In", "c"), false},
		{"SC-64 a value and notin", matching("a", "b"), expr("a", "NotIn", "b"), false},
		{"one that selects nothing, and an expression", &metav1.LabelSelector{
			MatchLabels: map[string]string{"a": "b"}, MatchExpressions: expr("a", "In", "c").MatchExpressions,
		}, expr("d", "Exists"), false},
		{"SC-64 notin and notin", expr("a", "NotIn", "b"), expr("a", "NotIn", "c"), true},
		{"SC-64 notin and absent", expr("a", "NotIn", "b"), expr("a", "DoesNotExist"), true},
		{"SC-64 exists and absent", expr("a", "Exists"), expr("a", "DoesNotExist"), false},
		{"SC-64 exists and a value", expr("a", "Exists"), matching("a", "b"), true},
		{"SC-65 exists and another key", expr("a", "Exists"), matching("b", "c"), true},
		{"SC-64 absent and another key", expr("a", "DoesNotExist"), matching("b", "c"), true},
		{"one that selects nothing", &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: expr("a", "In", "c").MatchExpressions}, matching("d", "e"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, pair := range [][2]*metav1.LabelSelector{{tc.a, tc.b}, {tc.b, tc.a}} {
				a, b := &v1beta1.SidecarSetSpec{Selector: pair[0]}, &v1beta1.SidecarSetSpec{Selector: pair[1]}
				if got := selectorsOf(a).overlaps(b); got != tc.want {
					t.Errorf("Pods overlap: %t", got)
				}
				all := matching("all", "")
				a, b = &v1beta1.SidecarSetSpec{Selector: all, NamespaceSelector: pair[0]}, &v1beta1.SidecarSetSpec{Selector: all, NamespaceSelector: pair[1]}
				if got := selectorsOf(a).overlaps(b); got != tc.want {
					t.Errorf("namespaces overlap: %t", got)
				}
				b.NamespaceSelector = nil
				if !selectorsOf(a).overlaps(b) || !selectorsOf(b).overlaps(a) {
					t.Error("no selector of namespaces does not overlap with one")
				}
			}
		})
	}
	if all := matching("a", "b"); selectorsOf(&v1beta1.SidecarSetSpec{Selector: all}).overlaps(&v1beta1.SidecarSetSpec{}) ||
		selectorsOf(&v1beta1.SidecarSetSpec{Selector: &metav1.LabelSelector{}}).overlaps(&v1beta1.SidecarSetSpec{Selector: all}) {
		t.Error("a selector that selects nothing overlaps with one")
	}
}

// BenchmarkValidateCreate compares a SidecarSet with 1,000 others: for different Pods, with different containers,
// and, as the worst case, with the same containers and a selector that differs only in its last term.
func BenchmarkValidateCreate(b *testing.B) {
	many := func(value string) edit {
		return func(obj *v1beta1.SidecarSet) {
			for i := range 500 {
				obj.Spec.Selector.MatchLabels["k"+strconv.Itoa(i)] = "v"
			}
			obj.Spec.Selector.MatchLabels["mesh"] = value
		}
	}
	renamed := func(obj *v1beta1.SidecarSet) {
		obj.Spec.InitContainers = nil
		for i := range obj.Spec.Containers {
			obj.Spec.Containers[i].Name += obj.Name
		}
	}
	for name, tc := range map[string]struct{ obj, other edit }{
		"other names":    {func(*v1beta1.SidecarSet) {}, renamed},
		"other Pods":     {func(*v1beta1.SidecarSet) {}, away},
		"long selectors": {many("on"), many("off")},
	} {
		b.Run(name, func(b *testing.B) {
			obj := valid(b, tc.obj)
			var others []*v1beta1.SidecarSet
			for i := range 1000 {
				others = append(others, valid(b, named("other-"+strconv.Itoa(i)), tc.other))
			}
			b.ReportAllocs()
			for b.Loop() {
				if errs := validateCreate(obj, others, validateOptions{}); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
