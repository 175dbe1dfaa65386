package workloads_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/workloads"
)

// parse reads "Set.v1.game.io Farm.v1.game.io". Words without dots are invalid.
func parse(data map[string]string) (kinds []schema.GroupVersionKind, err error) {
	for word := range strings.FieldsSeq(data["kinds"]) {
		if kind, _ := schema.ParseKindArg(word); kind != nil {
			kinds = append(kinds, *kind)
		} else {
			err = errors.Join(err, errors.New(word+" is no kind"))
		}
	}
	return kinds, err
}

func listing(kinds string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"kinds": kinds}}
}

func TestList(t *testing.T) {
	set := schema.GroupKind{Group: "game.io", Kind: "Set"}
	for _, c := range []struct {
		name   string
		before *corev1.ConfigMap
		after  *corev1.ConfigMap
		listed bool
		woken  bool
	}{
		{"a kind is listed", listing(""), listing("Set.v1.game.io"), true, true},
		{"in any version", listing("Set.v1.game.io"), listing("Set.v2.game.io"), true, true},
		{"another group's is not", listing(""), listing("Set.v1.shop.io"), false, true},
		{"no change wakes nobody", listing("Set.v1.game.io"), listing(" Set.v1.game.io "), true, false},
		{"it is listed no more", listing("Set.v1.game.io Farm.v1.game.io"), listing("Farm.v1.game.io"), false, true},
		{"nothing is listed any more", listing("Set.v1.game.io"), listing(""), false, true},
		{"the ConfigMap is gone", listing("Set.v1.game.io"), nil, false, true},
		{"a list that makes no sense changes nothing", listing("Set.v1.game.io"), listing("Set"), true, false},
		{"what makes sense of one counts", listing("Farm.v1.game.io"), listing("Set.v1.game.io Farm"), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synced := false
			list := workloads.ListOf(parse, func() bool { return synced })
			if _, known := list.Lists(set); known {
				t.Error("it is known before the ConfigMap was looked for")
			}
			list.Read(c.before)
			synced = true
			woken := list.Read(c.after)
			if listed, known := list.Lists(set); listed != c.listed || !known || woken != c.woken {
				t.Errorf("listed %t, known %t, woken %t", listed, known, woken)
			}
		})
	}
}
