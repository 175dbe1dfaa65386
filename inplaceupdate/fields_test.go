package inplaceupdate_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
)

// visitor walks a type and calls visit for each field, map value and list entry that can have a value. The function
// passed to visit sets such a value. Each slice and map gets a single entry, and each pointer a target.
type visitor struct {
	visit func(path string, change func(root reflect.Value))
	count int
}

// locate returns a field, map value or list entry of a template, and creates missing parents on the way.
type locate func(root reflect.Value) reflect.Value

func (v *visitor) walk(path string, t reflect.Type, at locate) {
	leaf := func(set func(reflect.Value)) {
		v.count++
		v.visit(path, func(root reflect.Value) { set(at(root)) })
	}
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		leaf(func(x reflect.Value) {
			q := x.Interface().(resource.Quantity)
			q.Add(resource.MustParse("77m"))
			x.Set(reflect.ValueOf(q))
		})
	case t == reflect.TypeFor[metav1.Time]():
		leaf(func(x reflect.Value) {
			x.Set(reflect.ValueOf(metav1.NewTime(x.Interface().(metav1.Time).Add(77 * time.Second))))
		})
	case t == reflect.TypeFor[intstr.IntOrString]():
		leaf(func(x reflect.Value) {
			x.Set(reflect.ValueOf(intstr.FromInt32(77 + x.Interface().(intstr.IntOrString).IntVal)))
		})
	default:
		v.walkKind(path, t, at, leaf)
	}
}

func (v *visitor) walkKind(path string, t reflect.Type, at locate, leaf func(func(reflect.Value))) {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" {
				name = "." + name
			}
			v.walk(path+name, f.Type, func(root reflect.Value) reflect.Value { return at(root).FieldByIndex(f.Index) })
		}
	case reflect.Pointer:
		made := func(root reflect.Value) reflect.Value {
			p := at(root)
			if p.IsNil() {
				p.Set(reflect.New(t.Elem()))
			}
			return p.Elem()
		}
		leaf(func(x reflect.Value) { // the presence of the entry or target is a difference, too
			if x.IsNil() {
				x.Set(reflect.New(t.Elem()))
			} else {
				x.Set(reflect.Zero(t))
			}
		})
		v.walk(path, t.Elem(), made)
	case reflect.Slice:
		v.walk(path+"[0]", t.Elem(), func(root reflect.Value) reflect.Value {
			s := at(root)
			if s.Len() == 0 {
				s.Set(reflect.MakeSlice(t, 1, 1))
			}
			return s.Index(0)
		})
	case reflect.Map:
		leaf(func(x reflect.Value) {
			if x.IsNil() {
				x.Set(reflect.MakeMap(t))
			}
			key, value := reflect.ValueOf("77").Convert(t.Key()), reflect.New(t.Elem()).Elem()
			if old := x.MapIndex(key); old.IsValid() {
				value.Set(old)
			}
			(&visitor{visit: func(_ string, change func(reflect.Value)) { change(value) }}).walk("", t.Elem(), itself)
			x.SetMapIndex(key, value)
		})
	case reflect.String:
		leaf(func(x reflect.Value) { x.SetString(x.String() + "77") })
	case reflect.Bool:
		leaf(func(x reflect.Value) { x.SetBool(!x.Bool()) })
	case reflect.Int, reflect.Int32, reflect.Int64:
		leaf(func(x reflect.Value) { x.SetInt(x.Int() + 77) })
	case reflect.Uint8:
		leaf(func(x reflect.Value) { x.SetUint(x.Uint() + 77) })
	default:
		panic(fmt.Sprintf("%s: the walk does not know kind %s; teach it", path, t.Kind()))
	}
}

// deliverable are the fields that an update may change. A change of any other field must block the update.
func deliverable(path string) bool {
	switch path {
	case ".metadata.labels", ".metadata.annotations", ".metadata.finalizers[0]", ".spec.containers[0].image",
		".spec.containers[0].resources.limits", ".spec.containers[0].resources.requests":
		return true
	}
	return false
}

// TestEveryField changes the fields of a Pod template one by one, in a template without values and in a template with
// values in all fields. The plan must notice every change: the plan either delivers the change, or blocks with a
// reason that names a field.
func TestEveryField(t *testing.T) {
	empty := func() *template {
		return &template{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	}
	full := func() *template {
		filled := empty()
		(&visitor{visit: func(_ string, change func(reflect.Value)) { change(reflect.ValueOf(filled).Elem()) }}).walk("", reflect.TypeFor[template](), itself)
		return filled
	}
	for name, base := range map[string]*template{"in an empty template": empty(), "in a full template": full()} {
		t.Run("U-2 "+name, func(t *testing.T) {
			v := &visitor{}
			v.visit = func(path string, change func(reflect.Value)) {
				to := base.DeepCopy()
				change(reflect.ValueOf(to).Elem())
				checkField(t, path, base, to)
			}
			v.walk("", reflect.TypeFor[template](), itself)
			if v.count < 700 {
				t.Errorf("only %d fields were visited", v.count)
			}
		})
	}
}

func itself(root reflect.Value) reflect.Value { return root }

func checkField(t *testing.T, path string, from, to *template) {
	t.Helper()
	updater := mustNew(inplaceupdate.Config{AllowResize: true, EnvFromMetadata: true})
	plan := updater.Plan(from, to)
	if plan.Possible() {
		if equality.Semantic.DeepEqual(from, to) {
			t.Errorf("%s: the walk changed nothing", path)
		}
		rest := *plan
		rest.Blocking = nil
		if reflect.DeepEqual(rest, inplaceupdate.Plan{}) {
			t.Errorf("%s: passes for equal", path)
		}
		if !deliverable(path) {
			t.Errorf("%s: is delivered: %+v", path, rest)
		}
		return
	}
	if deliverable(path) && !strings.Contains(path, "resources") {
		t.Errorf("%s: blocks: %v", path, plan.Blocking)
	}
	top := strings.Split(path, ".")[1]
	for _, why := range plan.Blocking {
		if why.Path == "" || why.Code == "" || !strings.HasPrefix(why.Path, top) {
			t.Errorf("%s: reason does not name the field: %v", path, why)
		}
	}
}
