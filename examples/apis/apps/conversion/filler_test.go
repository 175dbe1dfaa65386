package conversion_test

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// filler fills objects with values read from bytes, which a fuzzer chooses. After the last byte, all values are zero.
type filler struct{ data []byte }

func (f *filler) choose(n int) int {
	if len(f.data) == 0 {
		return 0
	}
	b := int(f.data[0])
	f.data = f.data[1:]
	return b % n
}

// word returns one of the strings that have a meaning in some field, so that fields often get such values.
func (f *filler) word() string {
	words := []string{
		"", "true", "5", "+5", "30%", "99999999999", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete",
		"RollingUpdate", "Blue", `{"when":[]}`,
	}
	return words[f.choose(len(words))]
}

func (f *filler) key() string {
	keys := []string{
		"app", apps.LabelExcludePreparingDelete, apps.AnnotationImagePreDownloadParallelism,
		apps.AnnotationImagePreDownloadTimeoutSeconds, apps.AnnotationImagePreDownloadMinUpdatedReadyPods, "a/b.c",
	}
	return keys[f.choose(len(keys))]
}

func (f *filler) object(meta *metav1.ObjectMeta, spec, status any) {
	meta.Name, meta.Namespace = "web", "default"
	meta.Labels, meta.Annotations = f.stringMap(), f.stringMap()
	for key, value := range meta.Labels {
		if len(validation.IsValidLabelValue(value)) > 0 { // the API server stores no such label
			meta.Labels[key] = "valid"
		}
	}
	f.value(reflect.ValueOf(spec).Elem())
	f.value(reflect.ValueOf(status).Elem())
}

func (f *filler) stringMap() map[string]string {
	var m map[string]string
	for range f.choose(4) {
		if m == nil {
			m = map[string]string{}
		}
		m[f.key()] = f.word()
	}
	return m
}

func (f *filler) value(v reflect.Value) {
	switch field := v.Addr().Interface().(type) {
	case *intstr.IntOrString:
		*field = intstr.FromInt32(int32(f.choose(256)) - 5)
		if f.choose(2) == 1 {
			*field = intstr.FromString(f.word())
		}
		return
	case *metav1.Time:
		*field = metav1.NewTime(time.Unix(int64(f.choose(256)), 0))
		return
	case *corev1.PodTemplateSpec:
		field.Labels = f.stringMap()
		field.Spec.Containers = []corev1.Container{{Name: f.word(), Image: f.word()}}
		return
	case *corev1.PersistentVolumeClaim:
		field.Name = f.word()
		return
	case *corev1.Container:
		field.Name, field.Image = f.word(), f.word()
		return
	case *corev1.Volume:
		field.Name = f.word()
		return
	case **runtime.RawExtension: // dropped by conversion
		return
	case *runtime.RawExtension:
		field.Raw = []byte(`{"a":1}`)
		return
	case *[]decode.Problem:
		return
	}
	f.kind(v)
}

func (f *filler) kind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			f.value(field)
		}
	case reflect.Pointer:
		if f.choose(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.value(v.Elem())
		}
	case reflect.Slice:
		if n := f.choose(3); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.value(v.Index(i))
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf(f.stringMap()))
			return
		}
		if f.choose(2) == 1 {
			element := reflect.New(v.Type().Elem()).Elem()
			f.value(element)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(f.word()), element)
		}
	case reflect.String:
		v.SetString(f.word())
	case reflect.Bool:
		v.SetBool(f.choose(2) == 1)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.choose(256)) - 5)
	default:
		panic("no filler for " + v.Kind().String())
	}
}
