package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

func ExampleRefused() {
	path := field.NewPath("spec")
	fmt.Println(judge.Refused(field.ErrorList{
		field.Invalid(path.Child("replicas"), int32(-1), "must be at least 0"),
		field.Required(path.Child("selector"), "must select at least one label"),
	}))
	// Output:
	// InvalidValue: spec.replicas: -1: must be at least 0; InvalidValue: spec.selector: Required value: must select at least one label
}

func TestRefused(t *testing.T) {
	at := field.NewPath("spec", "x")
	for _, tc := range []struct {
		name string
		err  *field.Error
		want string
	}{
		{"text", field.Invalid(at, "5", "no % sign"), `spec.x: "5": no % sign`},
		{"empty text", field.Invalid(at, "", "no % sign"), `spec.x: "": no % sign`},
		{"a map", field.Invalid(at, map[string]string{"a": "b"}, "must match"), `spec.x: {"a":"b"}: must match`},
		{"a value like a detail", field.Invalid(at, "must: be", "must: be"), `spec.x: "must: be": must: be`},
		{"one of several", field.NotSupported(at, "c", []string{"a", "b"}), `spec.x: "c": supported values: "a", "b"`},
		{"twice", field.Duplicate(at, "a=b"), `spec.x: "a=b": Duplicate value`},
		{"forbidden", field.Forbidden(at, "a and b exclude each other"), `spec.x: Forbidden: a and b exclude each other`},
		{"too many", field.TooMany(at, 3, 2), `spec.x: 3: must have at most 2 items`},
		{"long", field.Invalid(at, strings.Repeat("a", 1000), "too long"), `spec.x: "` + strings.Repeat("a", 199) + `...: too long`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := judge.Refused(field.ErrorList{tc.err})
			if diff := cmp.Diff(string(partition.InvalidValue)+": "+tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if none := judge.Refused(nil); none.Err() != nil {
		t.Errorf("nothing is refused, and that is %v", none)
	}
}

// TestWritten: the error of admission contains the value in the form in which the user has written the value.
func TestWritten(t *testing.T) {
	for value, want := range map[string]string{
		`"150%"`: `x: Invalid value: "150%": no`, `"7"`: `x: Invalid value: "7": no`, "7": "x: Invalid value: 7: no", "-7": "x: Invalid value: -7: no",
		"seven": `x: Invalid value: "seven": no`, "": `x: Invalid value: "": no`, `""`: `x: Invalid value: "": no`,
	} {
		if diff := cmp.Diff(want, field.Invalid(field.NewPath("x"), judge.Written(value), "no").Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
	read := &judge.Reading{}
	read.Count("spec.x", ptr.To(intstr.FromString("many")), 5, partition.Up)
	_, err := partition.Resolve("spec.x", ptr.To(intstr.FromString("150%")), 5, partition.Up)
	read.Failed(err)
	for _, problem := range read.Problems {
		if strings.Contains(problem.Refusal.Error(), `\"`) || strings.Contains(problem.Reason.New, `\"`) {
			t.Errorf("quoted twice: %v, %v", problem.Refusal, problem.Reason)
		}
	}
	if len(read.Problems) != 2 {
		t.Errorf("%v", read.Problems)
	}
}

// TestReadingFails: an invalid value becomes a problem, and is not silently read as zero.
func TestReadingFails(t *testing.T) {
	bad := ptr.To(intstr.FromString("few"))
	read := judge.Reading{}
	read.Count("spec.a", bad, 10, partition.Up)
	read.Kept("spec.b", bad, 10)
	read.LimitAsUpstream("spec.c", bad, 10, partition.Up)
	read.Order("spec.d", &pub.PriorityStrategy{OrderPriority: []pub.OrderPriorityTerm{{}}}, []pub.ScatterTerm{{}})
	var paths []string
	for _, problem := range read.Problems.Reasons() {
		paths = append(paths, problem.Path)
	}
	want := []string{"spec.a", "spec.b", "spec.c", "spec.d.priorityStrategy.orderPriority[0].orderedKey", "spec.d.scatterStrategy[0].key"}
	if diff := cmp.Diff(want, paths); diff != "" || len(read.Warnings) > 0 {
		t.Errorf("problems (-want +got):\n%s\nwarnings %v", diff, read.Warnings)
	}
	if limit := read.LimitAsUpstream("spec.c", nil, 10, partition.Up); limit != nil {
		t.Errorf("no limit is read as %d", *limit)
	}
}
