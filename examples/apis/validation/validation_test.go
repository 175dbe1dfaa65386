package validation_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

func Example() {
	value := intstr.FromString("5")
	for _, err := range validation.Count(&value, field.NewPath("spec", "maxUnavailable")) {
		fmt.Println(err)
	}
	// Output:
	// spec.maxUnavailable: Invalid value: "5": no % sign; use an integer from 0 to 2147483647, or a percentage such as "12.5%"
}

func TestCount(t *testing.T) {
	tests := []struct {
		value intstr.IntOrString
		ok    bool
	}{
		{intstr.FromInt32(0), true},
		{intstr.FromInt32(math.MaxInt32), true},
		{intstr.FromInt32(-1), false},
		{intstr.FromString("0%"), true},
		{intstr.FromString("12.5%"), true},
		{intstr.FromString("100%"), true},
		{intstr.FromString("250%"), true},
		{intstr.FromString("2147483647%"), true},
		{intstr.FromString("214748364700%"), true},
		{intstr.FromString("214748364800%"), false},
		{intstr.FromString("999999999999%"), false},
		{intstr.FromString(strings.Repeat("9", 1<<16) + "%"), false},
		{intstr.FromString("0." + strings.Repeat("0", 1<<16) + "%"), false},
		{intstr.FromString("5"), false},
		{intstr.FromString(""), false},
		{intstr.FromString("%"), false},
		{intstr.FromString("-5%"), false},
		{intstr.FromString("+5%"), false},
		{intstr.FromString("5%%"), false},
		{intstr.FromString("5 %"), false},
		{intstr.FromString("5%\n"), false},
		{intstr.FromString("NaN%"), false},
		{intstr.FromString("Inf%"), false},
		{intstr.FromString("1e2%"), false},
		{intstr.FromString("0x1%"), false},
		{intstr.FromString("1.%"), true},
		{intstr.FromString(".5%"), true},
		{intstr.FromString(".%"), false},
		{intstr.FromString("٣%"), false},
		{intstr.IntOrString{Type: 7}, false},
	}
	for _, tc := range tests {
		name := fmt.Sprintf("V-16 %.20s", tc.value.String())
		t.Run(name, func(t *testing.T) {
			errs := validation.Count(&tc.value, field.NewPath("x"))
			if (len(errs) == 0) != tc.ok {
				t.Errorf("Count() = %v, want ok: %t", errs, tc.ok)
			}
			for _, err := range errs {
				if len(err.Error()) > 300 {
					t.Errorf("error of %d bytes", len(err.Error()))
				}
			}
		})
	}
	if errs := validation.Count(nil, field.NewPath("x")); len(errs) > 0 {
		t.Errorf("Count(nil) = %v", errs)
	}
}

func TestCountOf(t *testing.T) {
	for _, tc := range []struct {
		value intstr.IntOrString
		total int32
		ok    bool
	}{
		{intstr.FromInt32(math.MaxInt32), 0, true},
		{intstr.FromString("2147483647%"), 100, true},
		{intstr.FromString("2147483647%"), 101, false},
		{intstr.FromString("999999999999%"), 0, true},
		{intstr.FromString("5"), 0, false},
		{intstr.FromInt32(-1), 10, false},
	} {
		if errs := validation.CountOf(&tc.value, tc.total, field.NewPath("x")); (len(errs) == 0) != tc.ok {
			t.Errorf("CountOf(%s, %d) = %v, want ok: %t", tc.value.String(), tc.total, errs, tc.ok)
		}
	}
	if errs := validation.CountOf(nil, 10, field.NewPath("x")); len(errs) > 0 {
		t.Errorf("CountOf(nil) = %v", errs)
	}
}

func TestAsOpenKruise(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	for _, tc := range []struct{ value, want intstr.IntOrString }{
		{number(5), number(5)},
		{number(-5), number(0)},
		{text("5"), text("5%")},
		{text("-5"), text("0%")},
		{text("-5%"), text("0%")},
		{text("+5%"), text("5%")},
		{text("05%"), text("05%")}, // an unchanged percentage
		{text("12.5%"), text("12.5%")},
		{text("12.5"), text("12.5")},
		{text("5%%"), text("5%%")},
		{text("few"), text("few")},
		{text(""), text("")},
		{text("99999999999"), text("99999999999")},
	} {
		if got := validation.AsOpenKruise(tc.value); got != tc.want {
			t.Errorf("AsOpenKruise(%q) = %q, want %q", tc.value.String(), got.String(), tc.want.String())
		}
	}
}

func TestAtLeastOne(t *testing.T) {
	tests := []struct {
		value intstr.IntOrString
		total int32
		want  bool
	}{
		{intstr.FromInt32(0), 10, false},
		{intstr.FromInt32(1), 0, true},
		{intstr.FromString("0%"), 10, false},
		{intstr.FromString("0.000%"), 10, false},
		{intstr.FromString("0.001%"), 1, true},
		{intstr.FromString("50%"), 0, false},
		{intstr.FromString("2147483647%"), math.MaxInt32, true},
		{intstr.FromString("5"), 10, false},
		{intstr.FromInt32(-1), 10, false},
	}
	for _, tc := range tests {
		if got := validation.AtLeastOne(tc.value, tc.total); got != tc.want {
			t.Errorf("V-13 AtLeastOne(%s, %d) = %t, want %t", tc.value.String(), tc.total, got, tc.want)
		}
	}
}

func TestLongRunning(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		want []string
	}{
		{"nothing", corev1.PodSpec{}, nil},
		{"for ever", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}, nil},
		{"once", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, []string{"template.spec.restartPolicy"}},
		{"until it succeeds", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure}, []string{"template.spec.restartPolicy"}},
		{"for a while", corev1.PodSpec{ActiveDeadlineSeconds: new(int64(5))}, []string{"template.spec.activeDeadlineSeconds"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range validation.LongRunning(&corev1.PodTemplateSpec{Spec: tc.spec}, field.NewPath("template")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
