package kinds_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// TestRows: each row has all required fields, and no field names another kind, as a line copied from another row
// would.
func TestRows(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	controllers, paths := map[string]bool{}, map[string]bool{}
	for _, k := range kinds.All() {
		t.Run(k.Name(), func(t *testing.T) {
			if hasWorkers := k.Workers != nil && *k.Workers > 0; hasWorkers != (k.Setup != nil) || (k.Controller != "") != (k.Setup != nil) {
				t.Fatalf("row %+v: want a controller with a name, workers and a Setup, or none of them", k)
			}
			if controllers[k.Controller] && k.Controller != "" {
				t.Errorf("controller %q: want a name that no other has", k.Controller)
			}
			controllers[k.Controller] = true
			if !scheme.Recognizes(k.Kind) {
				t.Errorf("%s is not registered", k.Kind)
			}
			if k.IsMeasured() {
				checkSample(t, k, scheme)
			}
			for _, path := range admission.Paths(kind.Endpoints([]kind.Row{k}, admission.Options{})...) {
				if paths[path] {
					t.Errorf("path %s is served for another kind, too", path)
				}
				paths[path] = true
			}
			for _, c := range k.Cached {
				if c.Object == nil || c.Keep == nil {
					t.Errorf("%T is cached without saying what is kept", c.Object)
				}
			}
			checkCRD(t, k)
		})
	}
}

// TestMeasured: exactly these four kinds have a Sample for measurements.
func TestMeasured(t *testing.T) {
	var names []string
	for _, k := range kinds.Measured() {
		names = append(names, k.Name())
	}
	if diff := cmp.Diff([]string{"cloneset", "statefulset", "daemonset", "sidecarset"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, k := range kinds.All() {
		if want := k.Sample.Object != nil && k.Kind.Kind != "SidecarSet"; k.KeepsPods() != want {
			t.Errorf("%s keeps Pods: %v, want %v", k.Kind.Kind, k.KeepsPods(), want)
		}
	}
}

// checkSample checks the measured objects of a row.
func checkSample(t *testing.T, k kind.Row, scheme *runtime.Scheme) {
	t.Helper()
	object := k.Sample.Object(kind.Shape{
		Namespace: "default", Name: "x", Replicas: 2, Selector: &metav1.LabelSelector{}, Template: corev1.PodTemplateSpec{},
		MaxUnavailable: intstr.FromInt32(1),
	})
	if gvk, err := apiutil.GVKForObject(object, scheme); err != nil || gvk != k.Kind {
		t.Errorf("the object to measure is a %s, %v; want %s", gvk, err, k.Kind)
	}
	list := k.Kind
	list.Kind += "List"
	if gvk, err := apiutil.GVKForObject(k.Sample.List(), scheme); err != nil || gvk != list {
		t.Errorf("the list to measure is a %s, %v; want %s", gvk, err, list)
	}
	if k.Sample.Settled(object, 2) {
		t.Error("an object without a status counts as settled")
	}
}

// checkCRD compares a row with the installed CRD.
func checkCRD(t *testing.T, k kind.Row) {
	t.Helper()
	raw, err := os.ReadFile("../config/crd/" + k.Kind.Group + "_" + k.Resource + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		t.Fatal(err)
	}
	stored := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if stored < 0 || crd.Spec.Versions[stored].Name != k.Kind.Version || crd.Spec.Names.Kind != k.Kind.Kind {
		t.Errorf("the CRD stores %s in %+v; want %s", crd.Spec.Names.Kind, crd.Spec.Versions, k.Kind)
	}
	converted := crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
	if converted != k.Converted {
		t.Errorf("Converted is %v; the CRD says %v", k.Converted, converted)
	}
	if k.Converted {
		if names := kind.ConvertedCRDs([]kind.Row{k}); !slices.Equal(names, []string{crd.Name}) {
			t.Errorf("converted CRDs %q, want %s", names, crd.Name)
		}
	}
}

func TestAddFlags(t *testing.T) {
	table := kinds.All()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	kind.AddFlags(table, fs)
	args := []string{"--cloneset-scaling-exclude-preparing-delete"}
	for i, k := range table {
		if k.Workers != nil {
			args = append(args, fmt.Sprintf("--%s=%d", k.WorkersFlag(), 7+i))
		}
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	for i, other := range kinds.All() {
		if other.Workers == nil {
			continue
		}
		if *table[i].Workers != 7+i {
			t.Errorf("%s has %d workers, want %d", table[i].Kind, *table[i].Workers, 7+i)
		}
		if *other.Workers != 3 {
			t.Errorf("%s has %d workers in another table, want 3: rows share values", other.Kind, *other.Workers)
		}
	}
	workers, own := map[string]bool{}, []string{}
	for _, k := range table {
		workers[k.WorkersFlag()] = true
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if !workers[f.Name] {
			own = append(own, f.Name)
		}
	})
	want := []string{
		"assign-bcj-pods-by-scheduler", "assign-pods-by-scheduler", "cloneset-scaling-exclude-preparing-delete", "default-ttlseconds-for-always-nodeimage",
		"image-pull-pause-image", "image-pull-registries", "image-pull-through", "nodeimage-creation-delay", "ws-enabled-versioned-status",
	} // all flags are OpenKruise's, except image-pull-*
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("flags of single kinds (-want +got):\n%s", diff)
	}
}
