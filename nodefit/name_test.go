package nodefit_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/nodefit"
)

func untaken(string) bool { return false }

func ExamplePodName() {
	exists := map[string]bool{} // in a controller, the cache of Pods says which names exist
	taken := func(name string) bool { return exists[name] }
	first := nodefit.PodName("agent", "3f0c", "node-1", "agent-6f5d", taken)
	again := nodefit.PodName("agent", "3f0c", "node-1", "agent-6f5d", taken) // the API server refuses the name
	exists[first] = true
	beside := nodefit.PodName("agent", "3f0c", "node-1", "agent-6f5d", taken) // the name for a second Pod of the Node
	fmt.Println(strings.HasPrefix(first, "agent-"), again == first, beside == first)
	// Output: true true false
}

// hashed computes the end of a name independently: the hash FNV-1a of 32 bits, with an alphabet that forms no words.
// Every version of the package must compute the same end, because otherwise two versions of a controller would create
// two Pods.
func hashed(text string) string {
	h := uint32(2166136261)
	for _, b := range []byte(text) {
		h = (h ^ uint32(b)) * 16777619
	}
	out := ""
	for _, digit := range []byte(strconv.FormatUint(uint64(h), 10)) {
		out += string("bcdfghjklmnpqrstvwxz2456789"[int(digit)%27])
	}
	return out
}

func TestPodName(t *testing.T) {
	for _, tc := range []struct {
		name, owner, want string // owner is the name of the owner
	}{
		{"as it is", "agent", "agent"},
		{"the longest that is", strings.Repeat("a", 52), strings.Repeat("a", 52)},
		{"cut", strings.Repeat("a", 53), strings.Repeat("a", 52)},
		{"the longest of an object", strings.Repeat("a", 253), strings.Repeat("a", 52)},
		{"with dots", "log.agent", "log.agent"},
		{"cut at a dot", strings.Repeat("a", 51) + ".b", strings.Repeat("a", 51)},
		{"cut behind hyphens", strings.Repeat("a", 48) + "---.bb", strings.Repeat("a", 48)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := nodefit.PodName(tc.owner, "uid", "n1", "r1", untaken)
			if want := tc.want + "-" + hashed("uid/n1/r1/0"); got != want {
				t.Errorf("PodName = %q, want %q", got, want)
			}
			next := nodefit.PodName(tc.owner, "uid", "n1", "r1", func(name string) bool { return name == got })
			if want := tc.want + "-" + hashed("uid/n1/r1/1"); next != want {
				t.Errorf("PodName, where that is taken, = %q, want %q", next, want)
			}
		})
	}
}

// TestPodNameIsValid: names are valid for any names of Node and owner, even if many names are taken.
func TestPodNameIsValid(t *testing.T) {
	for _, owner := range []string{"a", "agent-1", strings.Repeat("a-b.", 60) + "c", strings.Repeat("x", 253), strings.Repeat("x", 51) + "-y"} {
		for i := range 2000 {
			attempts := 0
			name := nodefit.PodName(owner, types.UID(fmt.Sprint("uid-", i)), fmt.Sprintf("ip-10-0-%d.%s.internal", i, strings.Repeat("r", i%200)), "r1", func(string) bool {
				attempts++
				return attempts <= i%4
			})
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > 63 || attempts != i%4+1 {
				t.Fatalf("%q has %d characters after %d attempts: %v", name, len(name), attempts, problems)
			}
			if problems := validation.IsDNS1123Label(name); !strings.Contains(owner, ".") && len(problems) > 0 {
				t.Fatalf("%q is no name of a host: %v", name, problems)
			}
		}
	}
}

// TestPodNamesAreApart: the Pods for 10,000 Nodes have distinct names, nearly all at the first attempt. The Pods of
// another owner have other names, even if both owners' names begin with the same text.
func TestPodNamesAreApart(t *testing.T) {
	taken := map[string]bool{}
	again := 0
	for _, uid := range []types.UID{"6f7c4b0e-3b0d-4d0e-9b57-5ad7e4b0a001", "6f7c4b0e-3b0d-4d0e-9b57-5ad7e4b0a002"} {
		for i := range 10_000 {
			asked := 0
			name := nodefit.PodName(strings.Repeat("a", 60)+string(uid[len(uid)-1]), uid, fmt.Sprintf("node-%d", i), "r1", func(name string) bool {
				asked++
				return taken[name]
			})
			if taken[name] {
				t.Fatalf("%q is taken", name)
			}
			taken[name] = true
			again += asked - 1
		}
	}
	if len(taken) != 20_000 || again > 3 {
		t.Errorf("%d names, of which %d were taken at first; the hash does not tell Nodes apart", len(taken), again)
	}
}

// TestPodNameOfOne: Pods that differ in their Node, owner or revision have different names.
func TestPodNameOfOne(t *testing.T) {
	names := []string{
		nodefit.PodName("agent", "u1", "n1", "r1", untaken), nodefit.PodName("agent", "u1", "n2", "r1", untaken), nodefit.PodName("agent", "u2", "n1", "r1", untaken),
		nodefit.PodName("agent", "u1", "n1", "r2", untaken), nodefit.PodName("agents", "u1", "n1", "r1", untaken), nodefit.PodName("agent", "u1", "n1", "r1", func(name string) bool { return name == nodefit.PodName("agent", "u1", "n1", "r1", untaken) }),
	}
	if name := nodefit.PodName("agent", "u1", "n1", "r1", nil); name != names[0] {
		t.Errorf("without Pods: %s, want %s", name, names[0])
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("two of these are the same: %q", names)
	}
}
