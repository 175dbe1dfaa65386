package workloadspread

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

// ledger is the part of the status that records the taken places of each subset, by version of the workload. A place
// is the right to create a Pod in the subset. The lists and maps are never modified, only replaced.
type ledger = map[string][]v1beta1.WorkloadSpreadSubsetStatus

// bookOf converts the list of a version to a Book, the record of places in package subsets.
func bookOf(list []v1beta1.WorkloadSpreadSubsetStatus) subsets.Book {
	book := make(subsets.Book, len(list))
	for i := range list {
		book[i] = subsets.Line{
			Name: list[i].Name, Replicas: list[i].Replicas, Creating: list[i].CreatingPods, Deleting: list[i].DeletingPods,
		}
	}
	return book
}

// listOf converts the Book of a version to a list for the status. The conditions are copied from before, the list in
// the present status.
func listOf(book subsets.Book, places []subsets.Place, before []v1beta1.WorkloadSpreadSubsetStatus,
) []v1beta1.WorkloadSpreadSubsetStatus {
	conditions := make(map[string][]metav1.Condition, len(before))
	for i := range before {
		conditions[before[i].Name] = before[i].Conditions
	}
	list := make([]v1beta1.WorkloadSpreadSubsetStatus, len(places))
	for i := range places {
		line := book.Line(places[i].Name)
		list[i] = v1beta1.WorkloadSpreadSubsetStatus{
			Name: line.Name, Replicas: line.Replicas, CreatingPods: line.Creating, DeletingPods: line.Deleting,
			MissingReplicas: int32(line.Missing(places[i])), //nolint:gosec // maximums fit into an int32
			Conditions:      conditions[line.Name],
		}
	}
	return list
}

// with returns a copy of the ledger, in which list is the list of the given version.
func with(books ledger, version string, list []v1beta1.WorkloadSpreadSubsetStatus) ledger {
	out := make(ledger, len(books)+1)
	maps.Copy(out, books)
	out[version] = list
	return out
}

// ReplicasUnknown means that it is unknown how many Pods a workload wants, so percentages cannot be computed.
const ReplicasUnknown reason.Code = "ReplicasUnknown"

// places returns the maximum of each subset, and whether the subset is closed; the results are the same for every
// version. replicas is the number of wanted Pods, or nil if the number is unknown. The last subset is never closed,
// because Pods must be created somewhere.
func (s *settings) places(status *v1beta1.WorkloadSpreadStatus, replicas *int) ([]subsets.Place, error) {
	n := 0
	switch {
	case replicas != nil:
		n = max(*replicas, 0)
	case s.scaled:
		return nil, reason.Reason{
			Code: ReplicasUnknown, Path: "spec.subsets", Detail: "maxReplicas is a percentage, and the number of wanted Pods is unknown",
			Remedy: "use a number, or give spec.targetFilter.replicasPathList",
		}
	}
	last := len(s.subsets) - 1
	return s.rules.Places(n, func(name string) bool {
		return s.policy.PendingFor > 0 && name != s.subsets[last].name && standing(status.SubsetStatuses, name).Standing == subsets.Closed
	})
}

// standing returns whether a subset is open or closed (gets no further Pods), according to the subset's condition.
func standing(list []v1beta1.WorkloadSpreadSubsetStatus, name string) subsets.Mark {
	if c := schedulable(list, name); c != nil && c.Status == metav1.ConditionFalse {
		return subsets.Mark{Standing: subsets.Closed, Since: c.LastTransitionTime.Time}
	} else if c != nil {
		return subsets.Mark{Standing: subsets.Open, Since: c.LastTransitionTime.Time}
	}
	return subsets.Mark{}
}

func schedulable(list []v1beta1.WorkloadSpreadSubsetStatus, name string) *metav1.Condition {
	for i := range list {
		for j := range list[i].Conditions {
			if c := &list[i].Conditions[j]; list[i].Name == name && c.Type == v1beta1.WorkloadSpreadSchedulable {
				return c
			}
		}
	}
	return nil
}

// versionOf returns the version of a Pod, that is the Pod's revision in the workload. The Pods of each version are
// counted separately. versioned reports whether the Pods of a kind of controller, given in lower case, have versions.
func versionOf(pod *corev1.Pod, versioned func(kind string) bool) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !versioned(strings.ToLower(owner.Kind)) {
		return apps.SubsetVersionIgnored
	}
	if hash := pod.Labels[apps.LabelPodTemplateHash]; hash != "" {
		return hash
	}
	if name := pod.Labels[apps.LabelRevision]; name != "" {
		return versionIn(name)
	}
	return apps.SubsetVersionIgnored
}

// versionIn returns the version from the name of a revision; both formats of names are known.
func versionIn(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// newcomer is a Pod that is about to be created.
type newcomer struct {
	pod     *corev1.Pod
	version string
	// fresh is a new random key for the place of a Pod without a name.
	fresh string
	now   time.Time
}

// answer says which subset a new Pod gets.
type answer struct {
	subsets.Choice

	// mark is the annotation for the Pod, if the Pod gets a subset.
	mark mark
	// sure is true if the answer does not depend on the places recorded in the status.
	sure bool
}

// choose chooses a subset for a new Pod, and takes a place, the right to create a Pod in the subset. If
// Choice.Changed is true, the returned ledger must be written into the status before the answer may be used.
//
// If the webhook is called a second time for a Pod without a name, the Pod's annotation contains the key of its place.
// The key is used only if the ledger contains the key, because the annotation may have been copied from another Pod. A
// subset without a maximum has no recorded places, so a Pod that was already prepared for such a subset stays in the
// subset.
func (s *settings) choose(spread string, books ledger, places []subsets.Place, n newcomer) (ledger, answer) {
	book := bookOf(books[n.version])
	was, marked := markOf(n.pod, spread)
	m := mark{Name: spread}
	key := n.pod.Name
	if key == "" {
		if key = n.fresh; marked && was.UID != "" && awaits(book, was.UID) {
			key = was.UID
		}
		m.UID = key
	}
	if marked && !awaits(book, key) && s.isPrepared(n.pod, was, places) {
		return books, answer{Choice: subsets.Choice{Subset: was.Subset}, mark: was, sure: true}
	}
	after, choice := s.policy.Take(book, places, key, n.now)
	m.Subset = choice.Subset
	if choice.Changed {
		books = with(books, n.version, listOf(after, places, books[n.version]))
	}
	return books, answer{Choice: choice, mark: m, sure: isFirst(places, choice.Subset)}
}

func awaits(book subsets.Book, key string) bool {
	for i := range book {
		if _, ok := book[i].Creating[key]; ok {
			return true
		}
	}
	return false
}

// isPrepared reports whether a Pod already has everything that a subset without a maximum adds to Pods.
func (s *settings) isPrepared(pod *corev1.Pod, m mark, places []subsets.Place) bool {
	for i := range places {
		if places[i].Name == m.Subset && places[i].Max == subsets.Unlimited {
			out := pod.DeepCopy()
			err := inject(out, &s.subsets[i], m)
			out.Annotations[apps.AnnotationMatchedWorkloadSpread] = pod.Annotations[apps.AnnotationMatchedWorkloadSpread]
			return err == nil && apiequality.Semantic.DeepEqual(pod, out)
		}
	}
	return false
}

// isUnlimited reports whether a subset has no maximum.
func isUnlimited(places []subsets.Place, name string) bool {
	return slices.ContainsFunc(places, func(place subsets.Place) bool { return place.Name == name && place.Max == subsets.Unlimited })
}

// isFirst reports whether a subset has no maximum and all subsets before it are closed.
func isFirst(places []subsets.Place, name string) bool {
	for i := range places {
		if !places[i].Closed {
			return places[i].Max == subsets.Unlimited && places[i].Name == name
		}
	}
	return false
}

// chooseNumbered returns the subset of a Pod with an ordinal. The position of the ordinal among the wanted ordinals
// determines the subset.
func (s *settings) chooseNumbered(spread string, places []subsets.Place, pod *corev1.Pod, wanted ordinals.Set) answer {
	index := -1
	if _, ordinal, ok := ordinals.ParseName(pod.Name); ok {
		if index = ordinal; !wanted.IsZero() {
			index, _ = wanted.Index(ordinal)
		}
	}
	choice := subsets.PickNumbered(places, index)
	return answer{Choice: choice, mark: mark{Name: spread, Subset: choice.Subset}, sure: true}
}

// release frees the place of an active Pod in its subset, because the Pod is about to be deleted.
func (s *settings) release(spread string, books ledger, places []subsets.Place, pod *corev1.Pod, version string, now time.Time,
) (after ledger, changed bool) {
	m, marked := markOf(pod, spread)
	list, counted := books[version]
	if !marked || !counted {
		return books, false
	}
	book, changed := s.policy.Release(bookOf(list), places,
		subsets.Member{Name: pod.Name, Key: m.UID, Subset: m.Subset, Created: pod.CreationTimestamp.Time}, now)
	if !changed {
		return books, false
	}
	return with(books, version, listOf(book, places, list)), true
}

// follows reports whether a ledger still has all entries and numbers of an earlier ledger. If so, no count of the
// controller was written into the status in between.
func follows(books, earlier ledger) bool {
	for version := range earlier {
		if !bookOf(books[version]).Follows(bookOf(earlier[version])) {
			return false
		}
	}
	return true
}

// errNoInteger means that a path for the number of Pods does not lead to an integer.
var errNoInteger = errors.New("must lead to an integer")

// sumOf returns the sum of the integers at the paths in an object. Parts of a path that are numbers are list indexes.
func sumOf(object map[string]any, paths [][]string) (sum int64, err error) {
	for _, path := range paths {
		var at any = object
		for _, step := range path {
			switch in := at.(type) {
			case map[string]any:
				at = in[step]
			case []any:
				i, err := strconv.Atoi(step)
				if at = nil; err == nil && i >= 0 && i < len(in) {
					at = in[i]
				}
			default:
				at = nil
			}
		}
		n, ok := at.(int64)
		if !ok || n < 0 || n > 1<<31-1 {
			return 0, fmt.Errorf("%s: %w", strings.Join(path, "."), errNoInteger)
		}
		sum = min(sum+n, 1<<31-1)
	}
	return sum, nil
}
