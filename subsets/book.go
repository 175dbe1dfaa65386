package subsets

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Book records how many places of the subsets are taken: by Pods that were counted, and by Pods that were admitted
// but do not exist yet. Several webhooks and a controller that counts the Pods write the same book, each by
// compare-and-swap. A book is for the Pods of one namespace and of a single revision, if each revision has places of
// its own. The functions replace lines and maps and never modify them, so books of cached objects may be passed. The
// zero Book has no Pods.
type Book []Line

// Line is the record of a subset in a Book. An API type may embed the JSON form in its status.
type Line struct {
	Name string `json:"name"`
	// Replicas is the number of active Pods at the last count.
	Replicas int32 `json:"replicas"`
	// Creating are places taken since the last count for Pods that do not exist yet, by key, with the time. Deleting
	// are counted Pods whose deletion was admitted since the count, by name, with the time.
	Creating map[string]metav1.Time `json:"creating,omitempty"`
	Deleting map[string]metav1.Time `json:"deleting,omitempty"`
}

// DeepCopyInto copies the line, for API types that embed a book.
func (l *Line) DeepCopyInto(out *Line) {
	*out = *l
	out.Creating, out.Deleting = maps.Clone(l.Creating), maps.Clone(l.Deleting)
}

// DeepCopy copies the book, for API types that embed a book.
func (b Book) DeepCopy() Book {
	if b == nil {
		return nil
	}
	out := make(Book, len(b))
	for i := range b {
		b[i].DeepCopyInto(&out[i])
	}
	return out
}

// Taken returns the number of places of the subset that are taken.
func (l Line) Taken() int {
	return max(int(l.Replicas)-len(l.Deleting), 0) + len(l.Creating)
}

// Missing returns the number of free places of the subset, or Unlimited if the place has no limit.
func (l Line) Missing(place Place) int {
	if place.isUnlimited() {
		return Unlimited
	}
	return max(place.Max-l.Taken(), 0)
}

// IsIdle reports whether no Pod occupies a place, and no admitted Pod has still to be created. The book of an old
// revision may then be deleted.
func (b Book) IsIdle() bool {
	for i := range b {
		if b[i].Replicas != 0 || len(b[i].Creating) > 0 || len(b[i].Deleting) > 0 {
			return false
		}
	}
	return true
}

// Line returns the line of a subset, or an empty line if the book has none.
func (b Book) Line(subset string) Line {
	for i := range b {
		if b[i].Name == subset {
			return b[i]
		}
	}
	return Line{Name: subset}
}

// aligned returns the lines in the order of the places. Lines of subsets that no longer exist are left out.
func (b Book) aligned(places []Place) Book {
	out := make(Book, len(places))
	lines := make(map[string]int, len(b))
	for i := range b {
		lines[b[i].Name] = i
	}
	for i := range places {
		if at, ok := lines[places[i].Name]; ok {
			out[i] = b[at]
			continue
		}
		out[i].Name = places[i].Name
	}
	return out
}

// Take takes a place for a new Pod in the first subset with a free place, and returns the book to store if
// Choice.Changed is true. key is the Pod's name, or a generated id that the Pod carries from then on. A second call
// with the same key has the same result and takes no second place. If the recorded time is older than RenewedAfter,
// the second call renews the time. Once Policy.Count has found the Pod, the book no longer has the Pod's key, and a
// further call with the key takes another place until Policy.CreatingFor has passed. For a subset without a limit,
// Take records nothing.
//
// If a Pod of the same name was deleted a moment ago, the new Pod gets the old Pod's subset, provided that the subset
// is open and the place is still free. If no subset has a free place, Choice.Subset is empty: create the Pod without a
// subset, or refuse the Pod.
func (p Policy) Take(book Book, places []Place, key string, now time.Time) (Book, Choice) {
	p, places = p.complete(), distinct(places)
	lines := book.aligned(places)
	if key != "" {
		if i := indexOf(lines, func(l *Line) bool { return has(l.Creating, key) }); i >= 0 {
			c := Choice{Subset: places[i].Name}
			if age := now.Sub(lines[i].Creating[key].Time); age >= 0 && age < min(RenewedAfter, p.CreatingFor/2) {
				return book, c
			}
			c.Changed = true // reserved for CreatingFor from the last request on
			lines[i].Creating = with(lines[i].Creating, key, now)
			return lines, c
		}
	}
	chosen, c := p.choose(lines, places, key)
	switch {
	case chosen < 0 || places[chosen].isUnlimited():
		return book, c
	case key == "":
		return book, Choice{Why: reason.List{{
			Code: NoKey, Path: places[chosen].path(), Detail: "the place needs a name",
			Remedy: "give the Pod a name or a key",
		}}}
	}
	c.Changed = true
	for i := range lines { // An entry under the key belongs to a deleted Pod of the same name, or to an earlier creation that failed.
		lines[i].Deleting = without(lines[i].Deleting, key)
	}
	lines[chosen].Creating = with(lines[chosen].Creating, key, now)
	return lines, c
}

// Pick returns the subset that Take would choose for another new Pod now, and takes no place.
func (p Policy) Pick(book Book, places []Place) Choice {
	p, places = p.complete(), distinct(places)
	_, c := p.choose(book.aligned(places), places, "")
	return c
}

// choose returns the index of the chosen subset, -1 if there is none.
func (p Policy) choose(lines Book, places []Place, key string) (int, Choice) {
	if i := indexOf(lines, func(l *Line) bool { return has(l.Deleting, key) }); i >= 0 {
		var c Choice
		if p.offers(&places[i], &lines[i], &c.Why) {
			c.Subset = places[i].Name
			return i, c
		}
	}
	var c Choice
	for i := range places {
		if p.offers(&places[i], &lines[i], &c.Why) {
			c.Subset = places[i].Name
			return i, c
		}
	}
	if len(places) == 0 {
		add(&c.Why, noPlace())
	}
	return -1, c
}

// offers reports whether a subset with the given line may get another Pod (see Place.takes), and otherwise adds the
// reason. If places are reserved for Pods that do not exist yet, the reason is PlacesKept instead of MaxReached: the
// remedy is to wait, and not a higher maximum.
func (p Policy) offers(place *Place, line *Line, why *reason.List) bool {
	pods, kept := line.Taken()-len(line.Creating), len(line.Creating)
	if place.Closed || place.isUnlimited() || pods >= place.Max || pods+kept < place.Max {
		return place.takes(pods+kept, why)
	}
	add(why, reason.Reason{
		Code: PlacesKept, Path: place.path(), New: strconv.Itoa(place.Max),
		Detail: fmt.Sprintf("Pods: %d, places kept for requests of the last %s: %d", pods, p.CreatingFor, kept),
		Remedy: "see the events of the Pods' owner: the place of a failed request becomes free again",
	})
	return false
}

// Follows reports whether the Book contains all entries and numbers of an earlier Book. If the result is false, a
// count may have taken place in between: see Release.
func (b Book) Follows(earlier Book) bool {
	for i := range earlier {
		before, line := &earlier[i], b.Line(earlier[i].Name)
		if line.Replicas != before.Replicas || !contains(line.Creating, before.Creating) || !contains(line.Deleting, before.Deleting) {
			return false
		}
	}
	return true
}

func contains(all, some map[string]metav1.Time) bool {
	for key := range some {
		if !has(all, key) {
			return false
		}
	}
	return true
}

// Release frees the place of a Pod that is about to be deleted, and returns the book; store the book if changed is
// true. Call Release only for active Pods. Release changes nothing for subsets without a limit, for unknown subsets,
// and for Pods that were released already.
//
// A slow caller may call Release only after the deletion, and after a count that has freed the place already. So read
// the book first, then ask the API server whether the Pod is still there, and call Release only with a book that
// Follows the first book.
func (p Policy) Release(book Book, places []Place, m Member, now time.Time) (after Book, changed bool) {
	places = distinct(places)
	place := find(places, m.Subset)
	if place == nil || place.isUnlimited() || m.Name == "" {
		return book, false
	}
	lines := book.aligned(places)
	i := indexOf(lines, func(l *Line) bool { return l.Name == m.Subset })
	line := &lines[i]
	for _, key := range []string{m.Key, m.Name} {
		if key != "" && has(line.Creating, key) { // the Pod was not counted yet
			line.Creating = without(line.Creating, key)
			return lines, true
		}
	}
	if has(line.Deleting, m.Name) {
		return book, false
	}
	line.Deleting = with(line.Deleting, m.Name, now)
	return lines, true
}

func indexOf(lines Book, is func(*Line) bool) int {
	for i := range lines {
		if is(&lines[i]) {
			return i
		}
	}
	return -1
}

// Drop frees the places of Pods that will certainly not be created. absent reports whether the Pod with the key will
// not be created; Drop calls absent for each place taken for a Pod that does not exist yet, with the time of the last
// request. For example, absent reads the Pod from the API server if the last request was long enough ago. lost has a
// reason NotCreated for each freed place.
func (b Book) Drop(places []Place, absent func(key string, since time.Time) bool) (after Book, lost reason.List) {
	after = b
	for i := range b {
		for _, key := range sortedKeys(b[i].Creating) {
			if !absent(key, b[i].Creating[key].Time) {
				continue
			}
			if lost == nil {
				after = slices.Clone(b)
			}
			after[i].Creating = without(after[i].Creating, key)
			path := ""
			if place := find(places, b[i].Name); place != nil {
				path = place.path()
			}
			add(&lost, notCreated(key, path, "admitted, and not there when the API server was asked"))
		}
	}
	return after, lost
}

func has(m map[string]metav1.Time, key string) bool {
	_, ok := m[key]
	return ok
}

// with and without return a changed copy of the map.
func with(m map[string]metav1.Time, key string, now time.Time) map[string]metav1.Time {
	out := make(map[string]metav1.Time, len(m)+1)
	maps.Copy(out, m)
	out[key] = metav1.NewTime(now.Truncate(time.Second)) // API times have whole seconds
	return out
}

func without(m map[string]metav1.Time, key string) map[string]metav1.Time {
	if !has(m, key) {
		return m
	}
	out := maps.Clone(m)
	if delete(out, key); len(out) == 0 {
		return nil
	}
	return out
}
