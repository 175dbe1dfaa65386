package persistentpodstate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
)

func ExampleParseKinds() {
	kinds, err := persistentpodstate.ParseKinds(`{"workloads":[{"Group":"game.io","Version":"v1","Kind":"GameServerSet"}]}`)
	fmt.Println(kinds[0], err)
	// Output: game.io/v1, Kind=GameServerSet <nil>
}

func TestParseKinds(t *testing.T) {
	many := strings.Repeat(`{"Group":"a","Version":"v1","Kind":"K"},`, 3) // a kind, whatever its version
	for _, c := range []struct {
		name, text string
		want       []schema.GroupVersionKind
		wrong      string
	}{
		{"PS-11 nothing", "", nil, ""},
		{"PS-11 the case of the inner keys does not matter", `{"workloads":[{"group":"game.io","VERSION":"v1","Kind":"Set"}]}`, []schema.GroupVersionKind{{Group: "game.io", Version: "v1", Kind: "Set"}}, ""},
		{"PS-11 StatefulSets are allowed anyway", `{"workloads":[{"Group":"apps","Version":"v1","Kind":"StatefulSet"}]}`, nil, ""},
		{"PS-11 twice", `{"workloads":[` + many + `{"Group":"a","Version":"v2","Kind":"K"}]}`, []schema.GroupVersionKind{{Group: "a", Version: "v1", Kind: "K"}}, ""},
		{"PS-11 one without a version does not keep others out", `{"workloads":[{"Group":"a","Kind":"K"},{"Group":"b","Version":"v1","Kind":"K"}]}`, []schema.GroupVersionKind{{Group: "b", Version: "v1", Kind: "K"}}, "workloads[0]"},
		{"PS-11 no JSON", "GameServerSet", nil, "no list"},
		{"PS-11 no list", `{"workloads":{"Kind":"K"}}`, nil, "no list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := persistentpodstate.ParseKinds(c.text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want one with %q", err, c.wrong)
			}
		})
	}
}

func TestParseTooManyKinds(t *testing.T) {
	var entries []string
	for i := range 200 {
		entries = append(entries, fmt.Sprintf(`{"Group":"a","Version":"v1","Kind":"K%d"}`, i))
	}
	kinds, err := persistentpodstate.ParseKinds(`{"workloads":[` + strings.Join(entries, ",") + `]}`)
	if len(kinds) != 100 || err == nil {
		t.Errorf("%d kinds, error %v", len(kinds), err)
	}
}
