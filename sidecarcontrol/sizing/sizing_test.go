package sizing_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

// list returns a ResourceList of cpu and memory; empty values are left out.
func list(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if value != "" {
			out[name] = resource.MustParse(value)
		}
	}
	return out
}

func limits(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: list(cpu, memory)}
}

// texts renders computed resources.
func texts(r corev1.ResourceRequirements) map[string]string {
	out := map[string]string{}
	for path, l := range map[string]corev1.ResourceList{"limits.": r.Limits, "requests.": r.Requests} {
		for name, q := range l {
			out[path+string(name)] = q.String()
		}
	}
	return out
}

func compile(t testing.TB, p sizing.Policy) *sizing.Sizes {
	t.Helper()
	if p.Mode == "" {
		p.Mode = sizing.Sum
	}
	if p.Containers == "" {
		p.Containers = ".*"
	}
	s, err := sizing.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOf(t *testing.T) {
	a := corev1.ResourceRequirements{Limits: list("200m", ""), Requests: list("50m", "")}
	b := corev1.ResourceRequirements{Limits: list("400m", ""), Requests: list("100m", "")}
	half := sizing.Expressions{CPU: "max(cpu*50%, 50m)"}
	for _, tc := range []struct {
		name    string
		policy  sizing.Policy
		targets []corev1.ResourceRequirements
		want    map[string]string
	}{
		{
			"RP-11 sum",
			sizing.Policy{Limits: half, Requests: half},
			[]corev1.ResourceRequirements{a, b},
			map[string]string{"limits.cpu": "300m", "requests.cpu": "75m"},
		},
		{
			"RP-11 max",
			sizing.Policy{Mode: sizing.Max, Limits: half, Requests: half},
			[]corev1.ResourceRequirements{b, a},
			map[string]string{"limits.cpu": "200m", "requests.cpu": "50m"},
		},
		{
			"RP-11 one without a limit",
			sizing.Policy{Limits: half, Requests: half},
			[]corev1.ResourceRequirements{a, {Requests: list("100m", "")}},
			map[string]string{"requests.cpu": "75m"},
		},
		{
			"RP-5 one without a limit, the largest of all",
			sizing.Policy{Mode: sizing.Max, Limits: half, Requests: half},
			[]corev1.ResourceRequirements{a, {}},
			map[string]string{"requests.cpu": "50m"},
		},
		{
			"RP-5 one without a request",
			sizing.Policy{Requests: half},
			[]corev1.ResourceRequirements{{}, {Requests: list("300m", "")}},
			map[string]string{"requests.cpu": "150m"},
		},
		{
			"RP-4 limits of limits and requests of requests",
			sizing.Policy{Limits: sizing.Expressions{Memory: "memory"}, Requests: sizing.Expressions{Memory: "memory"}},
			[]corev1.ResourceRequirements{{Limits: list("", "2Gi"), Requests: list("", "1Gi")}},
			map[string]string{"limits.memory": "2Gi", "requests.memory": "1Gi"},
		},
		{
			"RP-6 a constant without a bound",
			sizing.Policy{Limits: sizing.Expressions{CPU: "200m", Memory: "200Mi"}},
			[]corev1.ResourceRequirements{limits("1", "")},
			map[string]string{"limits.cpu": "200m"},
		},
		{"RP-6 no expression", sizing.Policy{}, []corev1.ResourceRequirements{a}, map[string]string{}},
		{
			"RP-7 of nothing",
			sizing.Policy{Requests: sizing.Expressions{CPU: "cpu*50%", Memory: "memory+1Mi"}},
			[]corev1.ResourceRequirements{{}},
			map[string]string{"requests.cpu": "0", "requests.memory": "1Mi"},
		},
		{
			"RP-11 of two native sidecars' share",
			sizing.Policy{Limits: sizing.Expressions{CPU: "cpu*30%", Memory: "memory*15%"}},
			[]corev1.ResourceRequirements{limits("400m", "400Mi"), limits("600m", "600Mi")},
			map[string]string{"limits.cpu": "300m", "limits.memory": "150Mi"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := compile(t, tc.policy).Of(tc.targets)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(got)); diff != "" {
				t.Errorf("computed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpressions(t *testing.T) {
	for _, tc := range []struct {
		name             string
		text, cpu, bytes string // an expression, and the value of the variable: cpu, or memory in bytes
		want             string
	}{
		{"RP-11 in steps", "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", "6", "", "2400m"},
		{"RP-8 precedence", "cpu+cpu*2", "1", "", "3"},
		{"RP-8 from the left", "cpu-1-1", "5", "", "3"},
		{"RP-8 from the left, divisions", "cpu/2/5", "10", "", "1"},
		{"RP-8 parentheses", "(cpu+1)*2", "1", "", "4"},
		{"RP-8 a minus before a value", "cpu - -1", "1", "", "2"},
		{"RP-8 a minus before parentheses", "-(cpu-3)", "1", "", "2"},
		{"RP-8 min in max", "max(min(cpu, 2), 1)", "3", "", "2"},
		{"RP-8 an exponent", "1e3*memory", "", "2", "2k"},
		{"RP-8 a negative exponent", "memory*1e-1", "", "20", "2"},
		{"RP-8 a positive exponent", "memory*1E+1", "", "20", "200"},
		{"RP-8 m", "cpu+5m", "1", "", "1005m"},
		{"RP-8 k", "memory+1k-memory", "", "1", "1k"},
		{"RP-8 M", "memory+1M-memory", "", "1", "1M"},
		{"RP-8 G", "memory+1G-memory", "", "1", "1G"},
		{"RP-8 T", "memory+1T-memory", "", "1", "1T"},
		{"RP-8 P", "memory+1P-memory", "", "1", "1P"},
		{"RP-8 Ki", "memory+1Ki", "", "0", "1Ki"},
		{"RP-8 Mi", "memory+1.5Mi", "", "0", "1536Ki"},
		{"RP-8 Gi", "memory+1Gi", "", "0", "1Gi"},
		{"RP-8 Ti", "memory+1Ti", "", "0", "1Ti"},
		{"RP-8 Pi", "memory+50Pi", "", "0", "50Pi"},
		{"RP-8 upper case", "MAX(CPU, Min(2, cPu))", "1", "", "1"},
		{"RP-13 upper case of memory", "MEMORY*50%", "", "2Gi", "1Gi"},
		{"RP-9 a number beside a quantity", "cpu-0.5", "2", "", "1500m"},
		{"RP-9 a number beside a quantity has milli precision", "cpu+0.0019+0.0019", "1", "", "1002m"},
		{"RP-9 products are cut", "cpu*33.3333%", "1", "", "333m"},
		{"RP-9 quotients are cut", "cpu/3*3", "1", "", "999m"},
		{"RP-9 a negative value on the way", "max(0, cpu-4)+1", "1", "", "1"},
		{"RP-9 cut towards zero", "1 + cpu*-0.0005", "1", "", "1"},
		{"RP-9 parts of bytes", "memory*0.15", "", "10", "1500m"},
		{"RP-10 a number of cores", "0.2505", "1", "", "250m"},
		{"RP-10 a number of bytes", "1024.9", "", "1", "1Ki"},
		{"RP-12 less than one", "memory-100Mi", "", "150Mi", "50Mi"},
		{"RP-12 a number less than one", "cpu-2", "3", "", "1"},
		{"exact where a float64 is not", "cpu*0.1*3 - cpu*0.3", "1", "", "0"},
		{"large numbers on the way", "memory*1e30/1e30", "", "7", "7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, name := sizing.Policy{}, corev1.ResourceCPU
			if tc.bytes != "" {
				p.Requests.Memory, name = tc.text, corev1.ResourceMemory
			} else {
				p.Requests.CPU = tc.text
			}
			got, err := compile(t, p).Of([]corev1.ResourceRequirements{{Requests: list(tc.cpu, tc.bytes)}})
			if err != nil {
				t.Fatal(err)
			}
			q := got.Requests[name]
			if want := resource.MustParse(tc.want); q.Cmp(want) != 0 {
				t.Errorf("%s is %s, want %s", tc.text, q.String(), tc.want)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string // want is part of the detail
	}{
		{"RP-9 two quantities", "cpu*cpu", "position 4: multiplies two quantities"},
		{"RP-9 two quantities, one written", "cpu*50m", "multiplies two quantities"},
		{"RP-12 by a quantity", "2/cpu", "divides by a quantity"},
		{"RP-9 a quantity by one", "cpu/cpu", "divides by a quantity"},
		{"RP-9 by zero", "cpu/0", "divides by zero"},
		{"RP-9 by what comes to zero", "cpu/(50%-0.5)", "divides by zero"},
		{"RP-9 negative", "1-2", "the result -1 is negative"},
		{"RP-9 a negative quantity", "-5m", "negative"},
		{"too large", "1e19", "larger than any quantity"},
		{"RP-13 a literal with a letter", "5x", `"5x" is neither`},
		{"RP-8 no E", "1E", `"1E" is neither`},
		{"RP-8 no Ei", "1Ei", `"1Ei" is neither`},
		{"no K", "1K", `"1K" is neither`},
		{"no mi", "1mi", `"1mi" is neither`},
		{"no ki", "1ki", `"1ki" is neither`},
		{"a suffix of two", "1kM", `"1kM" is neither`},
		{"two points", "1.2.3", `"1.2.3" is no number`},
		{"a point alone", ".", `"." is no number`},
		{"hexadecimal", "0x10", `"0x10" is neither`},
		{"with an underscore", "1_000", `"1_000" is neither`},
		{"an exponent and a suffix", "1e3m", `"1e3m" is neither`},
		{"a huge exponent", "1e999999999", "is neither"},
		{"a huge negative exponent", "1e-999999999", "is neither"},
		{"no exponent", "1e-cpu", `"1e-cpu" is neither`},
		{"a share of a quantity", "1Mi%", `unexpected "%"`},
		{"a share of the variable", "cpu%", `unexpected "%"`},
		{"a remainder", "cpu % 5", `unexpected "% 5"`},
		{"a blank before the suffix", "5 m", `unexpected "m"`},
		{"blanks alone", "  ", "ends too early"},
		{"half a sum", "cpu*", "ends too early"},
		{"half a parenthesis", "(cpu", "ends too early"},
		{"one parenthesis too many", "cpu)", `unexpected ")"`},
		{"RP-8 max of one", "max(cpu)", `position 8: unexpected ")"`},
		{"RP-8 max of three", "max(cpu,1,2)", `unexpected ",2)"`},
		{"max of none", "max", "ends too early"},
		{"another function", "sum(cpu,1)", `unknown name "sum"`},
		{"the variable of another resource", "memory", `unknown name "memory"; the names here are cpu, max and min`},
		{"a plus before a value", "+1", `unexpected "+1"`},
		{"no ASCII", "cpu×2", "unexpected"},
		{"a zero byte", "cpu\x00", "unexpected"},
		{"too long", strings.Repeat(" ", 1000) + "1", "has 1001 bytes, and may have 1000"},
		{"too deep", strings.Repeat("(", 50) + "cpu" + strings.Repeat(")", 50), "nests deeper than 50"},
		{"too many signs", strings.Repeat("-", 50) + "1", "nests deeper than 50"},
		{"too deep in calls", strings.Repeat("max(1,", 50) + "cpu" + strings.Repeat(")", 50), "nests deeper than 50"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := sizing.Compile(sizing.Policy{Mode: sizing.Sum, Containers: ".", Limits: sizing.Expressions{CPU: tc.text}})
			problems := reason.From(err)
			if len(problems) != 1 || problems[0].Path != "resourcesExpr.limits.cpu" || problems[0].New != reason.Shorten(tc.text, 100) ||
				!errors.Is(err, sizing.InvalidExpression) || !strings.Contains(problems[0].Detail, tc.want) {
				t.Errorf("refused with %v, want a detail with %q", err, tc.want)
			}
		})
	}
	for _, text := range []string{strings.Repeat(" ", 999) + "1", strings.Repeat("(", 49) + "cpu" + strings.Repeat(")", 49), strings.Repeat("1+", 499) + "1"} {
		compile(t, sizing.Policy{Limits: sizing.Expressions{CPU: text}})
	}
}

func TestCompileNamesEveryField(t *testing.T) {
	bad := sizing.Expressions{CPU: "5x", Memory: "cpu"}
	_, err := sizing.Compile(sizing.Policy{Mode: "min", Limits: bad, Requests: bad})
	want := reason.List{
		{Code: sizing.InvalidExpression, Path: "targetContainersMode", New: "min", Detail: "must be sum or max"},
		{Code: sizing.InvalidExpression, Path: "targetContainersNameRegex", Detail: "is required"},
	}
	for _, list := range []string{"limits", "requests"} {
		want = append(want, reason.Reason{
			Code: sizing.InvalidExpression, Path: "resourcesExpr." + list + ".cpu", New: "5x", Detail: `position 1: "5x" is neither a number, a percentage nor a quantity`,
		}, reason.Reason{
			Code: sizing.InvalidExpression, Path: "resourcesExpr." + list + ".memory", New: "cpu", Detail: `position 1: unknown name "cpu"; the names here are memory, max and min`,
		})
	}
	if diff := cmp.Diff(want, reason.From(err)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	_, err = sizing.Compile(sizing.Policy{Mode: sizing.Max, Containers: "(?!a)"})
	if problems := reason.From(err); len(problems) != 1 || problems[0].Path != "targetContainersNameRegex" || problems[0].New != "(?!a)" {
		t.Errorf("what is not RE2 was refused with %v", err)
	}
}

func TestSelects(t *testing.T) {
	s := compile(t, sizing.Policy{Containers: "app|^web$"})
	for name, want := range map[string]bool{"app": true, "my-app-2": true, "web": true, "web-2": false, "": false} {
		if got := s.Selects(name); got != want {
			t.Errorf("selects %q: %t", name, got)
		}
	}
}

func TestOfRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		policy  sizing.Policy
		targets []corev1.ResourceRequirements
		want    reason.List
	}{
		{"RP-3 no target", sizing.Policy{Containers: "^app$"}, nil, reason.List{{
			Code: sizing.NoTargetContainer, Path: "targetContainersNameRegex", New: "^app$",
			Detail: "matches none of the Pod's containers", Remedy: "add a container that it matches, or change the expression",
		}}},
		{
			"RP-9 negative, each is named",
			sizing.Policy{Limits: sizing.Expressions{CPU: "cpu-2", Memory: "memory"}, Requests: sizing.Expressions{Memory: "memory-1"}},
			[]corev1.ResourceRequirements{limits("1500m", "1Mi")},
			reason.List{
				{Code: sizing.InvalidExpression, Path: "resourcesExpr.limits.cpu", New: "cpu-2", Detail: "the result -0.500 is negative, with 1.500 as cpu"},
				{Code: sizing.InvalidExpression, Path: "resourcesExpr.requests.memory", New: "memory-1", Detail: "the result -1 is negative, with 0 as memory"},
			},
		},
		{
			"too large",
			sizing.Policy{Limits: sizing.Expressions{Memory: "memory*3"}},
			[]corev1.ResourceRequirements{limits("", "4Ei")},
			reason.List{{
				Code: sizing.InvalidExpression, Path: "resourcesExpr.limits.memory", New: "memory*3",
				Detail: "the result 13835058055282163712 is larger than any quantity, with 4611686018427387904 as memory",
			}},
		},
		{
			"a target with a hundred digits",
			sizing.Policy{Limits: sizing.Expressions{CPU: "cpu"}},
			[]corev1.ResourceRequirements{limits(strings.Repeat("9", 100), "")},
			reason.List{{
				Code: sizing.InvalidExpression, Path: "resourcesExpr.limits.cpu", New: "cpu",
				Detail: "the result " + strings.Repeat("9", 40) + "... is larger than any quantity, with " + strings.Repeat("9", 40) + "... as cpu",
			}},
		},
		{
			"a sum that is too large",
			sizing.Policy{Limits: sizing.Expressions{Memory: "memory"}},
			[]corev1.ResourceRequirements{limits("", "4Ei"), limits("", "4Ei")},
			reason.List{{
				Code: sizing.InvalidExpression, Path: "resourcesExpr.limits.memory", New: "memory",
				Detail: "the result 9223372036854775808 is larger than any quantity, with 9223372036854775808 as memory",
			}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := compile(t, tc.policy).Of(tc.targets)
			if diff := cmp.Diff(tc.want, reason.From(err)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if len(got.Limits)+len(got.Requests) > 0 {
				t.Errorf("computed %v beside", texts(got))
			}
		})
	}
}

// TestOfChangesNothing: Of does not modify the targets, and the result shares no memory with them.
func TestOfChangesNothing(t *testing.T) {
	targets := []corev1.ResourceRequirements{{Limits: list("250m", "1Gi"), Requests: list("0.1", "512Mi")}}
	before := []corev1.ResourceRequirements{*targets[0].DeepCopy()}
	s := compile(t, sizing.Policy{Limits: sizing.Expressions{CPU: "cpu", Memory: "memory"}, Requests: sizing.Expressions{CPU: "cpu", Memory: "memory"}})
	for range 2 {
		got, err := s.Of(targets)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(texts(before[0]), texts(got)); diff != "" {
			t.Errorf("computed (-want +got):\n%s", diff)
		}
		got.Limits[corev1.ResourceCPU] = resource.MustParse("9")
	}
	if diff := cmp.Diff(before, targets); diff != "" {
		t.Errorf("the targets changed:\n%s", diff)
	}
}

// FuzzExpression: the compiler never panics. Added parentheses and blanks, and max or min of two equal values, do not
// change the result. A result is never negative, and a refused result is either negative or too large.
func FuzzExpression(f *testing.F) {
	f.Add("max(cpu*50%, 50m)", int64(2000))
	f.Add("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", int64(6000))
	f.Add("1e30*1e30*cpu/1e-30", int64(1))
	f.Add("-(-cpu - .5Ki)*MIN(1,2%)", int64(0))
	f.Fuzz(func(t *testing.T, text string, milli int64) {
		if milli < 0 || len(text) > 400 {
			t.Skip()
		}
		targets := []corev1.ResourceRequirements{{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}}}
		of := func(text string) (string, error) {
			s, err := sizing.Compile(sizing.Policy{Mode: sizing.Max, Containers: ".", Requests: sizing.Expressions{CPU: text}})
			if err != nil {
				return "", err
			}
			got, err := s.Of(targets)
			if err != nil {
				if detail := reason.From(err)[0].Detail; !strings.Contains(detail, "negative") && !strings.Contains(detail, "larger than any") {
					t.Errorf("%s: computing fails with %v", text, err)
				}
				return "", err
			}
			q := got.Requests[corev1.ResourceCPU]
			if q.Sign() < 0 {
				t.Errorf("%s is %s", text, q.String())
			}
			return new(big.Rat).SetInt64(q.MilliValue()).RatString() + " " + q.String(), nil
		}
		want, err := of(text)
		if strings.TrimSpace(text) == "" || strings.Contains(text, strings.Repeat("(", 20)) || strings.Count(text, "-")+strings.Count(text, "(") > 40 {
			return
		}
		for _, other := range []string{" " + text + "\n", "(" + text + ")", "max(" + text + "," + text + ")"} {
			if got, otherErr := of(other); got != want || (err == nil) != (otherErr == nil) {
				t.Errorf("%s is %s (%v), and %s is %s (%v)", text, want, err, other, got, otherErr)
			}
		}
	})
}
