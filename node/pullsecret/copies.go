package pullsecret

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// Holder is an object that needs copies of Secrets, such as a job that pulls images.
type Holder struct {
	// Name identifies the holder, and is unique among the holders of all namespaces.
	Name string
	// Sources are the Secrets with the holder's credentials.
	Sources []types.NamespacedName
	// Images are the images to pull.
	Images []Image
}

// Source is the result of reading a Secret that a holder needs.
type Source struct {
	// Name is the Secret's namespace and name.
	Name types.NamespacedName
	// Secret is the Secret; nil if the Secret does not exist.
	Secret *corev1.Secret
	// Err is the error of a read that has failed; nil after a successful read.
	Err error
}

// Copy is a copy of a Secret in the namespace that node agents may read.
type Copy struct {
	// Name is the copy's name. A copy in Plan.Make has no name; the caller generates a name.
	Name string
	// Source is the copied Secret.
	Source types.NamespacedName
	// Holders are the names of the holders that use the copy, in order of name.
	Holders []string
	// Content is the copy's type and data. Labels and annotations of the source are not copied.
	Content Content
}

// Plan has the next actions on copies. Make and refresh copies first, then correct the references to copies, and
// delete the copies in Drop at the end. A copy appears in a single list. If Make, Refresh and Drop are empty, holders
// that were not passed to Synced have no copies, and their finalizers may be removed.
type Plan struct {
	// Make are copies to create.
	Make []Copy
	// Refresh are copies with new content or new holders.
	Refresh []Copy
	// Keep are copies that are up to date.
	Keep []Copy
	// Drop are copies to delete: copies without holders, copies of Secrets that do not exist, and copies whose type
	// would change, because the type of a Secret is immutable.
	Drop []Copy
	// Why explains why a holder has no copy of a Secret, and which parts of a Secret were left out.
	Why reason.List
}

// Synced decides which copies to make, refresh and delete, for all holders that still need copies. A name in
// Copy.Holders is removed if no such holder is in holders. If the namespace of the copies does not exist, pass no
// copies.
//
// Each copy has only the entries that its holders need: see [Cut]. Holders that need the same entries of a Secret
// share a copy. A holder keeps its copy unless the entries change, so that references to copies seldom change. If a
// Secret was not read, or is missing in sources, the copies of the Secret are not changed.
func Synced(sources []Source, copies []Copy, holders []Holder) Plan {
	s := syncer{
		have: map[types.NamespacedName][]Copy{}, want: map[types.NamespacedName][]Holder{},
		read: map[types.NamespacedName]Source{},
	}
	names := map[types.NamespacedName]bool{}
	for _, c := range copies {
		names[c.Source] = true
		s.have[c.Source] = append(s.have[c.Source], c)
	}
	for _, h := range holders {
		for _, name := range h.Sources {
			names[name] = true
			if !slices.ContainsFunc(s.want[name], func(known Holder) bool { return known.Name == h.Name }) {
				s.want[name] = append(s.want[name], h)
			}
		}
	}
	for _, source := range sources {
		s.read[source.Name] = source
	}
	ordered := make([]types.NamespacedName, 0, len(names))
	for name := range names {
		ordered = append(ordered, name)
	}
	slices.SortFunc(ordered, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range ordered {
		s.sync(name)
	}
	return s.plan
}

// syncer is the state of a single call of Synced.
type syncer struct {
	have map[types.NamespacedName][]Copy
	want map[types.NamespacedName][]Holder
	read map[types.NamespacedName]Source
	plan Plan
}

func (s *syncer) sync(name types.NamespacedName) {
	have, want := s.have[name], s.want[name]
	slices.SortFunc(have, func(a, b Copy) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(want, func(a, b Holder) int { return cmp.Compare(a.Name, b.Name) })
	source, known := s.read[name]
	object := reason.Object{Kind: "Secret", Namespace: name.Namespace, Name: name.Name}
	switch {
	case len(want) == 0:
		s.plan.Drop = append(s.plan.Drop, have...)
	case !known || source.Err != nil:
		s.plan.Why = append(s.plan.Why, reason.Reason{
			Code: SourceUnread, Object: object, Detail: "the copies stay as before", Remedy: "try again",
		})
		s.release(have, want)
	case source.Secret == nil:
		s.plan.Why = append(s.plan.Why, reason.Reason{
			Code: SourceMissing, Object: object, Detail: "pulls go on without this Secret", Remedy: "create the Secret",
		})
		s.plan.Drop = append(s.plan.Drop, have...)
	default:
		s.place(name, have, s.group(source.Secret, want))
	}
}

// release removes the holders that do not need a copy any more, and changes no content.
func (s *syncer) release(have []Copy, want []Holder) {
	for _, c := range have {
		left := slices.DeleteFunc(slices.Clone(c.Holders), func(name string) bool {
			return !slices.ContainsFunc(want, func(h Holder) bool { return h.Name == name })
		})
		switch {
		case len(left) == 0:
			s.plan.Drop = append(s.plan.Drop, c)
		case len(left) < len(c.Holders):
			c.Holders = left
			s.plan.Refresh = append(s.plan.Refresh, c)
		default:
			s.plan.Keep = append(s.plan.Keep, c)
		}
	}
}

// share is a group of holders that need the same entries of a Secret.
type share struct {
	content Content
	holders []string
}

// group groups holders, ordered by name, by the entries that each holder needs.
func (s *syncer) group(secret *corev1.Secret, want []Holder) (shares []share) {
	for _, h := range want {
		content, why := Cut(secret, h.Images...)
		for _, r := range why {
			if !slices.Contains(s.plan.Why, r) {
				s.plan.Why = append(s.plan.Why, r)
			}
		}
		if content.IsZero() {
			continue
		}
		i := slices.IndexFunc(shares, func(known share) bool { return known.content.equal(content) })
		if i < 0 {
			i, shares = len(shares), append(shares, share{content: content})
		}
		shares[i].holders = append(shares[i].holders, h.Name)
	}
	return shares
}

// place assigns a copy to each share: the copy with most of the share's holders, or else a copy with equal content.
// Copies without a share are deleted (Plan.Drop).
func (s *syncer) place(source types.NamespacedName, have []Copy, shares []share) {
	copyOf := slices.Repeat([]int{-1}, len(shares))
	taken := map[int]bool{}
	for _, fits := range []func(share, Copy) int{shared, equal} { // common holders precede equal content
		for i, sh := range shares {
			if copyOf[i] < 0 {
				copyOf[i] = best(sh, have, taken, fits)
				taken[copyOf[i]] = true
			}
		}
	}
	for i, sh := range shares {
		wanted := Copy{Source: source, Holders: sh.holders, Content: sh.content}
		if copyOf[i] < 0 {
			s.plan.Make = append(s.plan.Make, wanted)
			continue
		}
		before := have[copyOf[i]]
		wanted.Name = before.Name
		if slices.Equal(before.Holders, wanted.Holders) && before.Content.equal(wanted.Content) {
			s.plan.Keep = append(s.plan.Keep, wanted)
		} else {
			s.plan.Refresh = append(s.plan.Refresh, wanted)
		}
	}
	for i, c := range have {
		if !taken[i] {
			s.plan.Drop = append(s.plan.Drop, c)
		}
	}
}

// best returns the index of the unassigned copy of the right type with the highest value of fits, the first by name
// among equals; -1 if none fits.
func best(sh share, have []Copy, taken map[int]bool, fits func(share, Copy) int) int {
	chosen, most := -1, 0
	for i, c := range have {
		if taken[i] || c.Content.Type != sh.content.Type {
			continue
		}
		if fit := fits(sh, c); fit > most {
			chosen, most = i, fit
		}
	}
	return chosen
}

// shared returns the number of holders that the share and the copy have in common.
func shared(sh share, c Copy) (count int) {
	for _, name := range sh.holders {
		if slices.Contains(c.Holders, name) {
			count++
		}
	}
	return count
}

func equal(sh share, c Copy) int {
	if c.Content.equal(sh.content) {
		return 1
	}
	return 0
}

// Of returns the names of the copies for a holder, in order of name. Call Of after the copies in Make have names.
func (p *Plan) Of(holder string) (names []string) {
	for _, copies := range [][]Copy{p.Make, p.Refresh, p.Keep} {
		for _, c := range copies {
			if c.Name != "" && slices.Contains(c.Holders, holder) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
