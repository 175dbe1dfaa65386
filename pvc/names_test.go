package pvc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/pvc"
)

// names returns Names for the given Pods and claims. Fresh names are n0, n1, ...
func names(claims []*corev1.PersistentVolumeClaim, pods ...*corev1.Pod) *pvc.Names {
	next := -1
	x := &pvc.Names{
		Known: known(pods...), Claims: claims, Taken: sets.New[string](), Leaving: sets.New[string](),
		MayReturn: func(string) bool { return true },
		Fresh:     func() string { next++; return fmt.Sprint("n", next) },
	}
	for _, pod := range pods {
		switch {
		case pod.OwnerReferences == nil:
		case pod.DeletionTimestamp == nil:
			x.Taken.Insert(pod.Name)
		default:
			x.Leaving.Insert(pod.Name)
		}
	}
	return x
}

func TestNames(t *testing.T) {
	type claims = []*corev1.PersistentVolumeClaim
	a, b := claim("data", "a"), claim("data", "b")
	for _, tc := range []struct {
		name   string
		names  *pvc.Names
		change func(*pvc.Names)
		n      int
		want   []string
	}{
		{"none", names(nil), nil, 0, nil},
		{"fewer than none", names(nil), nil, -1, nil},
		{"none, and claims wait", names(claims{a}), nil, 0, nil},
		{"C-7 fresh ones", names(nil), nil, 2, []string{"n0", "n1"}},
		{"C-36 those whose claims wait come first", names(claims{b, a}), nil, 3, []string{"a", "b", "n0"}},
		{"C-36 no more than that", names(claims{b, a}), nil, 1, []string{"a"}},
		{"a name that an active Pod has", names(claims{a}, newPod("a"), newPod("n0")), nil, 1, []string{"n1"}},
		{"C-4 a name that a released Pod has", names(claims{a}, with(newPod("a"), released), with(newPod("n0"), released)), nil, 1, []string{"n1"}},
		{"a name that a claim has whose Pod may not return", names(claims{claim("data", "n0")}), func(x *pvc.Names) { x.MayReturn = func(string) bool { return false } }, 1, []string{"n1"}},
		{"its Pod is on its way out: its successor waits", names(claims{a}, with(newPod("a"), terminating)), nil, 1, nil},
		{"its Pod is on its way out, and more are wanted", names(claims{a}, with(newPod("a"), terminating)), nil, 3, []string{"n0", "n1"}},
		{"its Pod is on its way out, and others may return", names(claims{a, b}, with(newPod("a"), terminating)), nil, 1, []string{"b"}},
		{"a stranger of the name is on its way out", names(claims{a}, with(with(newPod("a"), terminating), released)), nil, 1, []string{"n0"}},
		{"its Pod has gone since the caller looked", names(claims{a}), func(x *pvc.Names) { x.Leaving.Insert("a") }, 2, []string{"n0"}},
		{"the caller counts one as active that has gone", names(claims{a}), func(x *pvc.Names) { x.Taken.Insert("a") }, 1, []string{"n0"}},
		{"a name that one on its way out has", names(nil, with(newPod("n0"), terminating)), nil, 1, []string{"n1"}},
		{"chance gives a name twice", names(nil), func(x *pvc.Names) {
			drawn := []string{"x", "x", "y"}
			x.Fresh = func() string { name := drawn[0]; drawn = drawn[1:]; return name }
		}, 2, []string{"x", "y"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(tc.names)
			}
			taken, leaving := tc.names.Taken.Clone(), tc.names.Leaving.Clone()
			got := tc.names.New(tc.n)
			if diff := cmp.Diff(tc.want, slices.Clip(append([]string(nil), got...))); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if !taken.Equal(tc.names.Taken) || !leaving.Equal(tc.names.Leaving) {
				t.Error("the caller's sets were modified")
			}
		})
	}
}

// TestUnborn: Unborn remembers the name of a Pod whose creation failed, and forgets created and unwanted Pods.
func TestUnborn(t *testing.T) {
	var u pvc.Unborn
	none := func(string) bool { return false }
	check := func(after string, want ...string) {
		t.Helper()
		if got := sets.List(u.Of("web", none)); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	check("nothing")
	u.Remove("web", "a")
	u.Forget("web")
	check("removing what is not there")
	u.Add("web", "a")
	u.Add("web", "a")
	u.Add("web", "b")
	u.Add("api", "c")
	check("adding", "a", "b")
	u.Refuse("web", "b")
	u.Refuse("web", "a")
	if got := u.Refused("web"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("refused are %v", got)
	}
	u.Add("web", "a")
	if got := u.Refused("web"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("while a request for a is under way, refused are %v", got)
	}
	u.Of("web", none).Insert("x")
	check("changing the answer", "a", "b")
	u.Remove("web", "a")
	check("removing one", "b")
	u.Add("web", "d")
	if got := u.Of("web", func(pod string) bool { return pod == "b" }); !got.Equal(sets.New("d")) {
		t.Errorf("one exists after all: %v, want d", got)
	}
	check("one existed after all", "d")
	u.Forget("web")
	check("forgetting")
	if got := u.Of("api", none); !got.Equal(sets.New("c")) {
		t.Errorf("another owner's: %v", got)
	}
}

// TestAwaited: the reason NameAwaited names the terminating Pod and its finalizers.
func TestAwaited(t *testing.T) {
	type claims = []*corev1.PersistentVolumeClaim
	a, b, c := claim("data", "a"), claim("data", "b"), claim("data", "c")
	held := with(newPod("a"), func(pod *corev1.Pod) { terminating(pod); pod.Finalizers = []string{"x/y"} })
	for name, tc := range map[string]struct {
		names *pvc.Names
		n     int
		want  string
	}{
		"nobody":                        {names(claims{a}), 2, ""},
		"its Pod terminates":            {names(claims{a}, with(newPod("a"), terminating)), 1, "NameAwaited: Pod default/a: Pods that wait until the former ones of their names are gone, whose claims they are to have: 1; wait until it is gone, or have claims not used again"},
		"a finalizer holds it":          {names(claims{b, a}, held, with(newPod("b"), terminating)), 5, "NameAwaited: Pod default/a: Pods that wait until the former ones of their names are gone, whose claims they are to have: 2; the first has finalizers x/y; wait until it is gone, or have claims not used again"},
		"no Pod is missing":             {names(claims{a}, with(newPod("a"), terminating)), 0, ""},
		"others may return meanwhile":   {names(claims{a, b}, with(newPod("a"), terminating)), 1, ""},
		"no more wait than are missing": {names(claims{a, b, c}, with(newPod("a"), terminating), with(newPod("b"), terminating)), 2, "NameAwaited: Pod default/a: Pods that wait until the former ones of their names are gone, whose claims they are to have: 1; wait until it is gone, or have claims not used again"},
		"a stranger of the name":        {names(claims{a}, with(with(newPod("a"), terminating), released)), 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.names.Awaited(tc.n).String(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
