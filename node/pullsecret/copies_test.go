package pullsecret_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/pullsecret"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func found(secret corev1.Secret) pullsecret.Source {
	return pullsecret.Source{Name: named(secret.Name), Secret: &secret}
}

func holder(name, source string, refs ...string) pullsecret.Holder {
	h := pullsecret.Holder{Name: name, Sources: []types.NamespacedName{named(source)}}
	for _, ref := range refs {
		h.Images = append(h.Images, image(ref))
	}
	return h
}

// copyOf returns a copy of a Secret, with only the entries for the given images (Cut).
func copyOf(name string, secret corev1.Secret, holders string, refs ...string) pullsecret.Copy {
	content, _ := pullsecret.Cut(&secret, holder("", "", refs...).Images...)
	return pullsecret.Copy{Name: name, Source: named(secret.Name), Holders: strings.Fields(holders), Content: content}
}

// lines returns the copies of a plan as text.
func lines(plan pullsecret.Plan) (out []string) {
	for _, part := range []struct {
		name   string
		copies []pullsecret.Copy
	}{{"make", plan.Make}, {"refresh", plan.Refresh}, {"keep", plan.Keep}, {"drop", plan.Drop}} {
		for _, c := range part.copies {
			var registries []string
			for _, registry := range []string{"gcr.io", "quay.io"} {
				for _, data := range c.Content.Data {
					if strings.Contains(string(data), registry+`":{`) {
						registries = append(registries, registry)
					}
				}
			}
			out = append(out, strings.Join(strings.Fields(fmt.Sprint(part.name, " ", c.Name, " of ", c.Source.Name, " for ", c.Holders, " ", registries)), " "))
		}
	}
	for _, r := range plan.Why {
		out = append(out, string(r.Code)+" "+r.Object.Name)
	}
	return out
}

func TestSynced(t *testing.T) {
	a, b := logins("a", "gcr.io", "quay.io"), logins("b", "gcr.io")
	rotated := secretOf("a", `{"auths":{"gcr.io":{"username":"new"}}}`)
	whole := pullsecret.Copy{Name: "a-1", Source: named("a"), Holders: []string{"job1", "job2"}, Content: pullsecret.Content{Type: a.Type, Data: a.Data}}
	opaque := logins("a", "gcr.io")
	opaque.Type = corev1.SecretTypeOpaque
	for _, c := range []struct {
		name    string
		sources []pullsecret.Source
		copies  []pullsecret.Copy
		holders []pullsecret.Holder
		want    []string
	}{
		{"nothing", nil, nil, nil, nil},
		{"IP-21 a copy for a job", []pullsecret.Source{found(a)}, nil, []pullsecret.Holder{holder("job1", "a", "gcr.io/x")}, []string{"make of a for [job1] [gcr.io]"}},
		{
			"IP-21 shared by jobs that need the same",
			[]pullsecret.Source{found(a)},
			nil,
			[]pullsecret.Holder{holder("job2", "a", "gcr.io/x"), holder("job1", "a", "gcr.io/y")},
			[]string{"make of a for [job1 job2] [gcr.io]"},
		},
		{
			"IP-67 not shared by jobs of other registries",
			[]pullsecret.Source{found(a)},
			nil,
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x"), holder("job2", "a", "quay.io/x")},
			[]string{"make of a for [job1] [gcr.io]", "make of a for [job2] [quay.io]"},
		},
		{
			"IP-22 a job joins the copy with the same content",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x"), holder("job2", "a", "gcr.io/z")},
			[]string{"refresh a-1 of a for [job1 job2] [gcr.io]"},
		},
		{
			"IP-22 the copy that lists the job, not the first by name",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-1", a, "", "gcr.io/x"), copyOf("a-2", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"keep a-2 of a for [job1] [gcr.io]", "drop a-1 of a for [] [gcr.io]"},
		},
		{
			"IP-22 otherwise the first by name",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-2", a, "", "gcr.io/x"), copyOf("a-1", a, "", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"refresh a-1 of a for [job1] [gcr.io]", "drop a-2 of a for [] [gcr.io]"},
		},
		{
			"IP-22 but no copy with another content",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-1", a, "", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "quay.io/x")},
			[]string{"make of a for [job1] [quay.io]", "drop a-1 of a for [] [gcr.io]"},
		},
		{
			"a job of the same content takes no copy from the job that holds the copy",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-1", a, "job2", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x"), holder("job2", "a", "quay.io/x")},
			[]string{"make of a for [job1] [gcr.io]", "refresh a-1 of a for [job2] [quay.io]"},
		},
		{
			"up to date",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"keep a-1 of a for [job1] [gcr.io]"},
		},
		{
			"IP-65 a copy of everything is cut, and its second job gets a copy",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{whole},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x"), holder("job2", "a", "quay.io/z")},
			[]string{"make of a for [job2] [quay.io]", "refresh a-1 of a for [job1] [gcr.io]"},
		},
		{
			"IP-15 new data",
			[]pullsecret.Source{found(rotated)},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"refresh a-1 of a for [job1] [gcr.io]"},
		},
		{
			"IP-65 a new type needs a new copy",
			[]pullsecret.Source{found(legacy(a))},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"make of a for [job1] [gcr.io]", "drop a-1 of a for [job1] [gcr.io]"},
		},
		{
			"IP-65 no docker type any more",
			[]pullsecret.Source{found(opaque)},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"drop a-1 of a for [job1] [gcr.io]", "NotPullSecret a"},
		},
		{
			"ND-65 a malformed Secret holds up no other",
			[]pullsecret.Source{found(secretOf("a", "{")), found(b)},
			nil,
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x"), holder("job2", "b", "gcr.io/x")},
			[]string{"make of b for [job2] [gcr.io]", "MalformedSecret a"},
		},
		{
			"IP-23 a job is over, another is not",
			[]pullsecret.Source{found(a)},
			[]pullsecret.Copy{copyOf("a-1", a, "job1 job2", "gcr.io/x")},
			[]pullsecret.Holder{holder("job2", "a", "gcr.io/x")},
			[]string{"refresh a-1 of a for [job2] [gcr.io]"},
		},
		{
			"IP-23 the last job is over, though the Secret was not read",
			nil,
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			nil,
			[]string{"drop a-1 of a for [job1] [gcr.io]"},
		},
		{"IP-62 nothing to release", nil, nil, []pullsecret.Holder{{Name: "job1"}}, nil},
		{
			"IP-24 a missing Secret",
			[]pullsecret.Source{{Name: named("a")}, found(b)},
			nil,
			[]pullsecret.Holder{{Name: "job1", Sources: []types.NamespacedName{named("a"), named("b")}, Images: []pullsecret.Image{image("gcr.io/x")}}},
			[]string{"make of b for [job1] [gcr.io]", "SourceMissing a"},
		},
		{
			"IP-61 the Secret vanishes while the job runs",
			[]pullsecret.Source{{Name: named("a")}},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"drop a-1 of a for [job1] [gcr.io]", "SourceMissing a"},
		},
		{
			"IP-61 a failed read is no missing Secret",
			[]pullsecret.Source{{Name: named("a"), Err: errors.New("timeout")}},
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x"), copyOf("a-2", a, "job2 job3", "gcr.io/x"), copyOf("a-3", a, "job3", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x"), holder("job2", "a", "gcr.io/x")},
			[]string{"refresh a-2 of a for [job2] [gcr.io]", "keep a-1 of a for [job1] [gcr.io]", "drop a-3 of a for [job3] [gcr.io]", "SourceUnread a"},
		},
		{
			"a Secret that was not read at all",
			nil,
			[]pullsecret.Copy{copyOf("a-1", a, "job1", "gcr.io/x")},
			[]pullsecret.Holder{holder("job1", "a", "gcr.io/x")},
			[]string{"keep a-1 of a for [job1] [gcr.io]", "SourceUnread a"},
		},
		{
			"no entry for the job's image",
			[]pullsecret.Source{found(a)},
			nil,
			[]pullsecret.Holder{holder("job1", "a", "reg.io/x")},
			[]string{"NothingMatches a"},
		},
		{
			"a Secret named twice",
			[]pullsecret.Source{found(a)},
			nil,
			[]pullsecret.Holder{{Name: "job1", Sources: []types.NamespacedName{named("a"), named("a")}, Images: []pullsecret.Image{image("gcr.io/x")}}},
			[]string{"make of a for [job1] [gcr.io]"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(pullsecret.Synced(c.sources, c.copies, c.holders))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanOf(t *testing.T) {
	a := logins("a", "gcr.io", "quay.io")
	plan := pullsecret.Plan{
		Make:    []pullsecret.Copy{copyOf("z", a, "job1", "gcr.io/x"), copyOf("", a, "job1", "gcr.io/x")},
		Refresh: []pullsecret.Copy{copyOf("b", a, "job1 job2", "gcr.io/x")},
		Keep:    []pullsecret.Copy{copyOf("a", a, "job1", "gcr.io/x")},
		Drop:    []pullsecret.Copy{copyOf("d", a, "job1", "gcr.io/x")},
	}
	if diff := cmp.Diff([]string{"a", "b", "z"}, plan.Of("job1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzCourse: jobs are created and deleted, Secrets change, disappear and cannot be read, and the manager dies
// between two of its writes. After a complete reconcile without errors, each copy has exactly the entries that its
// jobs need, and a second reconcile changes nothing.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(120) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 5)), secrets: map[string]corev1.Secret{}, jobs: map[string]pullsecret.Holder{}}
		for range 60 {
			w.move()
			w.pass(w.rand.IntN(4), w.rand.IntN(3) == 0)
		}
		w.pass(1000, false)
		w.check()
	})
}

// world simulates a namespace with Secrets and jobs, and the namespace of the copies.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	secrets map[string]corev1.Secret
	jobs    map[string]pullsecret.Holder
	copies  []pullsecret.Copy
	made    int
}

func (w *world) one(of ...string) string { return of[w.rand.IntN(len(of))] }

// move changes a job or a Secret.
func (w *world) move() {
	job, name := w.one("job1", "job2", "job3", "job4"), w.one("a", "b")
	switch w.rand.IntN(7) {
	case 0:
		delete(w.jobs, job)
	case 1:
		delete(w.secrets, name)
	case 2, 3:
		h := holder(job, name, w.one("gcr.io/x", "quay.io/x", "reg.io/x"), w.one("gcr.io/x", "quay.io/x"))
		if w.rand.IntN(2) == 0 {
			h.Sources = append(h.Sources, named(w.one("a", "b")))
		}
		w.jobs[job] = h
	case 4:
		w.secrets[name] = secretOf(name, w.one("{", `{"auths":{"gcr.io":{"username":"v1"}}}`, `{"auths":{"gcr.io":{"username":"v2"},"quay.io":{"auth":"?"}}}`))
	case 5:
		w.secrets[name] = legacy(logins(name, "gcr.io", "quay.io"))
	default:
		w.secrets[name] = logins(name, w.one("gcr.io", "*.io"), "quay.io")
	}
}

func (w *world) plan(unread bool) pullsecret.Plan {
	var sources []pullsecret.Source
	for _, name := range []string{"a", "b"} {
		source := pullsecret.Source{Name: named(name)}
		if secret, there := w.secrets[name]; there {
			source.Secret = &secret
		}
		if unread && w.rand.IntN(2) == 0 {
			source = pullsecret.Source{Name: named(name), Err: errors.New("timeout")}
		}
		sources = append(sources, source)
	}
	var holders []pullsecret.Holder
	for _, h := range w.jobs {
		holders = append(holders, h)
	}
	copies := slices.Clone(w.copies)
	w.rand.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
	return pullsecret.Synced(sources, copies, holders)
}

// pass carries out at most the given number of the plan's writes, as a manager that dies in between does.
func (w *world) pass(writes int, unread bool) {
	plan := w.plan(unread)
	do := func(write func()) {
		if writes > 0 {
			write()
			writes--
		}
	}
	for _, c := range plan.Make {
		do(func() {
			w.made++
			c.Name = fmt.Sprintf("copy-%d", w.made)
			w.copies = append(w.copies, c)
		})
	}
	for _, c := range plan.Refresh {
		do(func() {
			i := slices.IndexFunc(w.copies, func(known pullsecret.Copy) bool { return known.Name == c.Name })
			if w.copies[i].Content.Type != c.Content.Type {
				w.t.Fatalf("the type of %s would change", c.Name)
			}
			w.copies[i] = c
		})
	}
	for _, c := range plan.Drop {
		do(func() {
			w.copies = slices.DeleteFunc(w.copies, func(known pullsecret.Copy) bool { return known.Name == c.Name })
		})
	}
}

func (w *world) check() {
	plan := w.plan(false)
	if len(plan.Make)+len(plan.Refresh)+len(plan.Drop) > 0 {
		w.t.Errorf("a second pass has work: %v", lines(plan))
	}
	expected := map[string]int{} // copies by job
	for name, h := range w.jobs {
		sources := slices.Clone(h.Sources)
		slices.SortFunc(sources, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
		for _, source := range slices.Compact(sources) {
			secret, there := w.secrets[source.Name]
			if !there {
				continue
			}
			if want, _ := pullsecret.Cut(&secret, h.Images...); !want.IsZero() {
				expected[name]++
				if !slices.ContainsFunc(w.copies, func(c pullsecret.Copy) bool {
					return c.Source == source && slices.Contains(c.Holders, name) && c.Content.Type == want.Type && cmp.Equal(c.Content.Data, want.Data)
				}) {
					w.t.Errorf("%s has no right copy of %s", name, source)
				}
			}
		}
	}
	for _, c := range w.copies {
		if len(c.Holders) == 0 {
			w.t.Errorf("%s has no holders", c.Name)
		}
		for _, name := range c.Holders {
			expected[name]--
		}
	}
	for name, count := range expected {
		if got := len(plan.Of(name)); count != 0 || got > len(w.jobs[name].Sources) {
			w.t.Errorf("%s lacks %d copies, and has %d", name, count, got)
		}
	}
}
