package workloadspread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/ownercache/sharedstatus"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
	"github.com/workloadkit/workloadkit/subsets"
)

// statuses writes the statuses of WorkloadSpreads, for both webhooks and the controller.
type statuses = sharedstatus.Statuses[*v1beta1.WorkloadSpread, v1beta1.WorkloadSpreadStatus]

func newStatuses(c client.Client, live client.Reader, now clock.PassiveClock) (*statuses, error) {
	return sharedstatus.New(c, live, &v1beta1.WorkloadSpread{}, sharedstatus.Config[*v1beta1.WorkloadSpread, v1beta1.WorkloadSpreadStatus]{
		Ledger: func(spread *v1beta1.WorkloadSpread) v1beta1.WorkloadSpreadStatus { return spread.Status },
		Store:  func(spread *v1beta1.WorkloadSpread, status v1beta1.WorkloadSpreadStatus) { spread.Status = status },
		Noun:   "WorkloadSpread", Clock: now,
	})
}

// webhook assigns new Pods to subsets, and frees the places in subsets of Pods that are about to be deleted.
type webhook struct {
	*finder

	statuses  *statuses
	spares    *spares
	newKey    func() string
	versioned func(kind string) bool
}

// keyLength is the length of a random key of a place, with 80 bits. The status contains many keys, and longer keys
// would make each write slower.
const keyLength = 16

// step returns the step of the Pod webhook that assigns new Pods to subsets. Requests for Pods of workloads wait
// until the cache is up to date, because a Pod that was created without a subset never gets a subset later. Pods of
// dry runs are not changed.
func (w *webhook) step(on bool, current func(context.Context) error) podwebhook.Mutator {
	return podwebhook.Mutator{Name: "WorkloadSpread", Mutate: func(ctx context.Context, pod *corev1.Pod, request *webhookadmission.Request) error {
		if !on || ptr.Deref(request.DryRun, false) || !podstate.IsActive(pod) || controllerOf(pod).Name == "" {
			return nil
		}
		if err := current(ctx); err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		return w.spread(ctx, pod)
	}}
}

// spread assigns a new Pod to a subset.
func (w *webhook) spread(ctx context.Context, pod *corev1.Pod) error {
	spread, err := w.of(ctx, pod)
	if err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	if spread == nil {
		return nil
	}
	got, err := w.ask(ctx, spread, pod)
	if err != nil {
		return err
	}
	if _, copied := markOf(pod, spread.Name); got.to == nil && copied { // the annotation was copied from another Pod
		delete(pod.Annotations, apps.AnnotationMatchedWorkloadSpread)
		delete(pod.Annotations, apps.AnnotationPlaceSince)
	}
	if got.to == nil {
		return nil
	}
	if err := inject(pod, got.to, got.mark); err != nil {
		return err
	}
	if !got.since.IsZero() {
		pod.Annotations[apps.AnnotationPlaceSince] = strconv.FormatInt(got.since.Unix(), 10)
	}
	return nil
}

// given is the subset for a new Pod; if the Pod gets no subset, to is nil.
type given struct {
	to   *subset
	mark mark
	// since is when the Pod's place in the subset was taken, or the present time if the Pod needs no place. The zero
	// value means that an earlier call for the same Pod has taken the place.
	since time.Time
}

// ask chooses the subset of a new Pod.
func (w *webhook) ask(ctx context.Context, spread *v1beta1.WorkloadSpread, pod *corev1.Pod) (given, error) {
	s, _ := w.settingsOf(spread)
	replicas, err := w.replicas(ctx, spread.Namespace, s)
	if err != nil {
		return given{}, apierrors.NewServiceUnavailable(err.Error())
	}
	if api.IsNumbered(s.kind) {
		return w.askNumbered(ctx, spread, s, pod, replicas)
	}
	n := newcomer{pod: pod, version: versionOf(pod, w.versioned), fresh: w.newKey(), now: w.clock.Now()}
	if spare := w.fromSpares(spread, s, replicas, n); spare.to != nil {
		return spare, nil
	}
	var there []*corev1.Pod
	if spread.Status.ObservedGeneration == 0 {
		if there, err = w.podsOf(ctx, spread.Namespace, s); err != nil {
			return given{}, apierrors.NewServiceUnavailable(err.Error())
		}
	}
	got, err := sharedstatus.Ask(ctx, w.statuses, client.ObjectKeyFromObject(spread), cmp.Or(pod.Name, n.fresh), w.placing(n, replicas, there))
	switch {
	case errors.Is(err, sharedstatus.ErrGone):
		return given{}, nil
	case err != nil:
		return given{}, apierrors.NewServiceUnavailable(fmt.Sprintf("WorkloadSpread %s: %v", spread.Name, err))
	}
	return got, nil
}

// placing returns a function that chooses the subset of a new Pod from the status; the function is called again after
// a slow write or a conflict. there contains the target's Pods, in case the controller has never counted the Pods.
func (w *webhook) placing(n newcomer, replicas *int, there []*corev1.Pod,
) func(*v1beta1.WorkloadSpread, v1beta1.WorkloadSpreadStatus) (v1beta1.WorkloadSpreadStatus, given, sharedstatus.Need) {
	var claimed spare // from the last attempt
	return func(spread *v1beta1.WorkloadSpread, before v1beta1.WorkloadSpreadStatus) (v1beta1.WorkloadSpreadStatus, given, sharedstatus.Need) {
		s, ok := w.settingsOf(spread)
		places, err := s.places(&before, replicas)
		if !ok || err != nil || !s.selector.Matches(labels.Set(n.pod.Labels)) {
			return before, given{}, sharedstatus.Answer
		}
		n.now = w.clock.Now() // each attempt reads the time, because the decision is repeated after a slow write
		books := before.VersionedSubsetStatuses
		if before.ObservedGeneration == 0 && len(books) == 0 {
			books = s.booksOf(spread, before, observed{pods: s.crowdOf(spread.Name, there, w.versioned), replicas: replicas, versioned: w.versioned, now: n.now})
		}
		of, book := pool{spread.UID, n.version}, bookOf(books[n.version])
		if claimed.isIn(book) {
			return before, claimed.given(spread, s), sharedstatus.Confirm
		}
		w.spares.unclaim(of, claimed.key)
		books, answer := s.choose(spread.Name, books, places, n)
		if claimed = w.claim(of, n, book, places, answer); claimed.key != "" {
			return before, claimed.given(spread, s), sharedstatus.Confirm
		}
		then := sharedstatus.Confirm
		switch {
		case answer.Changed:
			before.VersionedSubsetStatuses, then = books, sharedstatus.Store
		case answer.sure:
			then = sharedstatus.Answer
		}
		to := given{to: s.named(answer.Subset), mark: answer.mark}
		if answer.Changed || isUnlimited(places, answer.Subset) {
			to.since = n.now
		}
		return before, to, then
	}
}

// askNumbered chooses the subset of a Pod with an ordinal.
func (w *webhook) askNumbered(ctx context.Context, spread *v1beta1.WorkloadSpread, s *settings, pod *corev1.Pod, replicas *int) (given, error) {
	numbers, err := w.wanted(ctx, spread.Namespace, s)
	if err != nil {
		return given{}, apierrors.NewServiceUnavailable(err.Error())
	}
	places, err := s.places(&spread.Status, replicas)
	if err != nil {
		return given{}, nil //nolint:nilerr // the controller reports the reason
	}
	answer := s.chooseNumbered(spread.Name, places, pod, numbers)
	return given{to: s.named(answer.Subset), mark: answer.mark, since: w.clock.Now()}, nil
}

// named returns the subset with a name, or nil.
func (s *settings) named(name string) *subset {
	for i := range s.subsets {
		if s.subsets[i].name == name {
			return &s.subsets[i]
		}
	}
	return nil
}

// releases is how long the webhook may delay the deletion of a Pod to free the Pod's place in the subset. If the
// place cannot be freed in this time, the controller's next count of the Pods frees the place.
const releases = 2 * time.Second

// givesBack reports whether the review of a request frees the place of the Pod, as it does for a deletion. For an
// eviction the place is not freed: the eviction may be refused after the review, for example by a
// PodDisruptionBudget, and be tried again and again. If each attempt freed the place, too many Pods would be
// admitted. The controller's next count of the Pods frees the place of an evicted Pod.
func givesBack(review *guard.Review) bool {
	return review.Pod != nil && review.Operation == disruption.Delete && !review.DryRun
}

// leaves returns the handler of requests to delete or evict a Pod. No deletion is refused because of a WorkloadSpread.
func (w *webhook) leaves(live client.Reader) webhookadmission.Handler {
	return webhookadmission.HandlerFunc(func(ctx context.Context, request webhookadmission.Request) webhookadmission.Response {
		ctx, cancel := context.WithTimeout(ctx, releases)
		defer cancel()
		review, err := guard.ReviewOf(ctx, live, request)
		if err == nil && givesBack(&review) {
			err = w.giveBack(ctx, live, review.Pod)
		}
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "The place of a deleted Pod is not given back before the next count", "namespace", request.Namespace, "pod", request.Name)
		}
		return webhookadmission.Allowed("")
	})
}

// giveBack frees the place of a Pod that is about to be deleted. If this process is slow, another request may already
// have deleted the Pod, and the controller's count may have freed the place. So giveBack first reads the ledger (the
// record of taken places in the status), then checks that the Pod still exists, and frees the place only if no count
// has changed the ledger since.
func (w *webhook) giveBack(ctx context.Context, live client.Reader, pod *corev1.Pod) error {
	if !podstate.IsActive(pod) || pod.Annotations[apps.AnnotationMatchedWorkloadSpread] == "" {
		return nil
	}
	spread, err := w.of(ctx, pod)
	if err != nil || spread == nil {
		return err
	}
	if s, _ := w.settingsOf(spread); api.IsNumbered(s.kind) {
		return nil
	}
	for known := (recount{spread.Status.VersionedSubsetStatuses, true}); err == nil && known.is; {
		var there bool
		if there, err = isThere(ctx, live, pod); err != nil || !there {
			return err
		}
		known, err = w.release(ctx, spread, pod, known.ledger)
	}
	if errors.Is(err, sharedstatus.ErrGone) {
		return nil
	}
	return err
}

// isThere asks the API server whether a Pod exists and is not being deleted.
func isThere(ctx context.Context, live client.Reader, pod *corev1.Pod) (bool, error) {
	var now corev1.Pod
	if err := live.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return now.UID == pod.UID && now.DeletionTimestamp == nil, nil
}

// recount is a ledger, the record of taken places. The field is is true if a count of the controller has written the
// ledger.
type recount struct {
	ledger ledger
	is     bool
}

// release frees the place of a Pod if no count of the controller has changed the ledger since known was read. If a
// count has changed the ledger, release frees no place and returns the changed ledger.
func (w *webhook) release(ctx context.Context, spread *v1beta1.WorkloadSpread, pod *corev1.Pod, known ledger) (recount, error) {
	version, now := versionOf(pod, w.versioned), w.clock.Now()
	return changeBooks(ctx, w, spread, pod.Name, func(s *settings, books ledger, places []subsets.Place) (ledger, recount, bool) {
		if !follows(books, known) {
			return books, recount{books, true}, false
		}
		after, changed := s.release(spread.Name, books, places, pod, version, now)
		return after, recount{}, changed
	})
}

// changeBooks changes the ledger (the record of taken places in the status) of a WorkloadSpread, or of a later
// WorkloadSpread of the same name, and returns the answer of change after the ledger was written. about describes the
// request in errors.
func changeBooks[A any](ctx context.Context, w *webhook, of *v1beta1.WorkloadSpread, about string,
	change func(s *settings, books ledger, places []subsets.Place) (after ledger, answer A, changed bool),
) (A, error) {
	var none A
	s, _ := w.settingsOf(of)
	replicas, err := w.replicas(ctx, of.Namespace, s)
	if err != nil {
		return none, err
	}
	return sharedstatus.Ask(ctx, w.statuses, client.ObjectKeyFromObject(of), about,
		func(spread *v1beta1.WorkloadSpread, before v1beta1.WorkloadSpreadStatus) (v1beta1.WorkloadSpreadStatus, A, sharedstatus.Need) {
			s, ok := w.settingsOf(spread)
			places, err := s.places(&before, replicas)
			if !ok || err != nil {
				return before, none, sharedstatus.Answer
			}
			books, answer, changed := change(s, before.VersionedSubsetStatuses, places)
			if !changed {
				return before, answer, sharedstatus.Answer
			}
			before.VersionedSubsetStatuses = books
			return before, answer, sharedstatus.Store
		})
}
