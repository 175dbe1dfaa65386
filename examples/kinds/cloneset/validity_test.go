package cloneset

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// specDice makes random specs. Most values are valid, so that an invalid value is often the only one in its spec.
type specDice struct{ dice }

// oneOf returns the usual value in most cases.
func oneOf[T any](d *specDice, usual T, others ...T) T {
	if n := d.of(2 * (len(others) + 1)); n < len(others) {
		return others[len(others)-1-n]
	}
	return usual
}

func (d *specDice) number(usual int32) *int32 {
	return oneOf(d, &usual, nil, new(int32(0)), new(int32(1)), new(int32(1000)), new(int32(math.MaxInt32)), new(int32(-1)))
}

func (d *specDice) count() *intstr.IntOrString {
	number, text := intstr.FromInt32, intstr.FromString
	return oneOf(d, new(text("20%")), nil, new(number(0)), new(number(3)), new(text("0%")), new(text(".5%")), new(text("007%")), new(text("250%")),
		new(text("2147483647%")), new(text("999999999999%")), new(text("214748364700.5%")), new(text(strings.Repeat("9", 300)+"%")),
		new(text("5")), new(text("-5")), new(text("-5%")), new(text("+5%")), new(text("2147483647")), new(text("few")), new(text("")), new(number(-1)),
		&intstr.IntOrString{Type: 7})
}

// labels returns random labels, perhaps more than the controller's limit.
func (d *specDice) labels() map[string]string {
	many := map[string]string{"app": "web"}
	for i := range apps.MaxTerms {
		many[fmt.Sprint("l", i)] = "x"
	}
	return oneOf(d, map[string]string{"app": "web"}, nil, map[string]string{}, map[string]string{"app": "web", "tier": "a"}, map[string]string{"app": "other"},
		map[string]string{"-": "-", "not a label": "", "app": "!", "b": "?"}, map[string]string{"app": "web", apps.LabelInstanceID: "x"}, many)
}

func (d *specDice) selector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: d.labels()}
	for range oneOf(d, 0, 1, 2) {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      oneOf(d, "app", "tier", "", "no key", apps.LabelRevision),
			Operator: oneOf(d, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpDoesNotExist, "Near", ""),
			Values:   oneOf(d, nil, []string{"web"}, []string{"no value", "?"}, make([]string, apps.MaxTerms)),
		})
	}
	return oneOf(d, s, nil)
}

func (d *specDice) priority() *pub.PriorityStrategy {
	p := &pub.PriorityStrategy{}
	for range oneOf(d, 0, 1, 2) {
		p.WeightPriority = append(p.WeightPriority, pub.WeightPriorityTerm{
			Weight: oneOf(d, int32(10), 0, 100, 101, -1), MatchSelector: ptr.Deref(d.selector(), metav1.LabelSelector{}),
		})
	}
	for range oneOf(d, 0, 1, 2, apps.MaxTerms+1) {
		p.OrderPriority = append(p.OrderPriority, pub.OrderPriorityTerm{OrderedKey: oneOf(d, "app", "no key", "")})
	}
	return oneOf(d, nil, p)
}

func (d *specDice) scatter() (terms []pub.ScatterTerm) {
	for range oneOf(d, 0, 1, 2, apps.MaxTerms+1) {
		terms = append(terms, pub.ScatterTerm{Key: oneOf(d, fmt.Sprint("l", len(terms)), "app", ""), Value: oneOf(d, "", "web")})
	}
	return terms
}

// cloneSet returns a random CloneSet that could be stored. Some have the defaults of the webhook.
func (d *specDice) cloneSet() *v1beta1.CloneSet {
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	cs.Spec.Replicas, cs.Spec.Selector = d.number(10), d.selector()
	cs.Spec.Template.Labels = d.labels()
	cs.Spec.UpdateStrategy.Type = oneOf(d, v1beta1.RollingUpdate, v1beta1.OnDelete, "", "Never")
	cs.Spec.UpdateStrategy.RollingUpdate = oneOf(d, &v1beta1.RollingUpdateCloneSet{
		PodUpdatePolicy: oneOf(d, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly, v1beta1.ReCreate, "", "Sometimes"),
		Partition:       d.count(), MaxUnavailable: d.count(), MaxSurge: d.count(), Paused: d.yes(),
		PriorityStrategy: d.priority(), ScatterStrategy: d.scatter(),
		InPlaceUpdateStrategy: oneOf(d, nil, &pub.InPlaceUpdateStrategy{GracePeriodSeconds: *oneOf(d, new(int32(5)), new(int32(-1)))}),
	}, nil)
	cs.Spec.ScaleStrategy.MaxUnavailable = d.count()
	cs.Spec.MinReadySeconds = *oneOf(d, new(int32(0)), new(int32(-1)))
	cs.Spec.RevisionHistoryLimit, cs.Spec.ProgressDeadlineSeconds = d.number(10), d.number(600)
	if d.yes() {
		api.Default(cs, nil, api.DefaultOptions{})
	}
	return cs
}

// FuzzResolve: admission refuses the faults that the controller reports. The result is the same each time.
func FuzzResolve(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(40) { // one value at a time is unusual, then all values of the same kind
		f.Add(append(make([]byte, i), 255, 255, 255, 255, 255, 255, 255, 255, 255, 255))
		f.Add(append([]byte(strings.Repeat("\xff", int(i))), 0, 1, 2, 3, 4, 5, 6, 7))
		f.Add([]byte(strings.Repeat(string([]byte{i, 255, 255}), 20)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := specDice{data}
		cs := d.cloneSet()
		before := cs.DeepCopy()
		refused := validateCreate(cs, validateOptions{})
		options := Options{Options: kruise.Options{}.Complete()}
		s, problems, warnings := resolve(cs, options)
		again, problemsAgain, _ := resolve(cs.DeepCopy(), options)
		switch {
		case len(problems) > 0 && len(refused) == 0:
			t.Errorf("admission accepts what is unusable: %v", problems.Reasons())
		case len(refused) == 0 && len(warnings) > 0:
			t.Errorf("admission accepts what the controller warns of: %v", warnings.Reasons())
		case !reflect.DeepEqual(s, again): // settings contain fields that cmp cannot compare
			t.Errorf("read as %+v, and then as %+v", s, again)
		}
		if diff := cmp.Diff(problems.Reasons(), problemsAgain.Reasons()); diff != "" {
			t.Errorf("refused (-first +second):\n%s", diff)
		}
		for i, problem := range problems {
			why := problem.Reason
			if why.Code != partition.InvalidValue || why.Path != problem.Refusal.Field || why.Detail == "" || len(why.New) > 300 {
				t.Errorf("problem %d says %v", i, why)
			}
		}
		if diff := cmp.Diff(before, cs); diff != "" {
			t.Errorf("changed by being looked at (-before +after):\n%s", diff)
		}
	})
}

// FuzzFaults: for any spec, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.CloneSet]{
		Object: func(spec []byte) (objects []*v1beta1.CloneSet, ok bool) {
			cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			if err := json.Unmarshal(spec, &cs.Spec); err != nil {
				return nil, false
			}
			defaulted := cs.DeepCopy()
			api.Default(defaulted, nil, api.DefaultOptions{})
			return []*v1beta1.CloneSet{cs, defaulted}, len(cs.Spec.Undecodable) == 0
		},
		Resolve: func(cs *v1beta1.CloneSet) (problems, warnings judge.Faults) {
			_, problems, warnings = resolve(cs, Options{Options: kruise.Options{}.Complete()})
			return problems, warnings
		},
		Create: endpoint(admission.Options{}).ValidateCreate,
		Own: []string{
			"spec.scaleStrategy.podsToDelete", "spec.updateStrategy.type: Required value", "spec.updateStrategy.rollingUpdate: Required value",
		},
	})
}
