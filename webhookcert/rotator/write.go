package rotator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// reconcileSecret writes the Secret if needed, and reports whether it has written.
func (r *Rotator) reconcileSecret(ctx context.Context, next *time.Time) bool {
	if r.config.External || ctx.Err() != nil {
		return false
	}
	now := r.options.Clock.Now()
	if now.Before(r.secret.retryAt) {
		sooner(next, r.secret.retryAt)
		return false
	}
	decision, sure := r.decideSurely(ctx, next)
	if !sure {
		return false
	}
	if !decision.Write {
		sooner(next, decision.Again)
		if decision.Reason.Code != "" {
			r.say(ctx, r.secret, decision.Reason)
		}
		return false
	}
	if !r.mayWrite(ctx, r.secret, decision.Reason, next) {
		return false
	}
	err := r.writeSecret(ctx, decision)
	switch {
	case err == nil:
		r.wrote(ctx, r.secret, decision.Reason)
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && !errors.Is(err, NamespaceMissing):
		// Another replica has written the Secret first, and has probably made the same change.
		if err = r.refresh(ctx, r.secret); err == nil {
			break
		}
		fallthrough
	default:
		r.fail(ctx, &r.secret.attempts, err)
		sooner(next, r.secret.retryAt)
		return false
	}
	r.adopt(ctx)
	return true
}

// decide returns the decision about the Secret, from the versions of the Secret and the objects that the Rotator
// knows now.
func (r *Rotator) decide() webhookcert.Decision {
	now := r.options.Clock.Now()
	r.seen.Injected = r.injected(now)
	return r.policy.Decide(r.data(), r.seen, now)
}

// decideSurely is like decide, but if the next stage of a rotation is due, decideSurely reads the objects and decides
// again. The result is false if a read failed.
func (r *Rotator) decideSurely(ctx context.Context, next *time.Time) (webhookcert.Decision, bool) {
	decision := r.decide()
	if !decision.Write || decision.Reason.Code != webhookcert.OverlapOver {
		return decision, true
	}
	if !r.readObjects(ctx, next) {
		return decision, false
	}
	return r.decide(), true
}

// readObjects reads all objects from the API server, and reports whether all reads succeeded. Call readObjects before
// the leaf gets a new authority and before an authority is removed from the bundle: if a watch has broken without an
// error, an object may have lost the bundle unnoticed.
func (r *Rotator) readObjects(ctx context.Context, next *time.Time) bool {
	for _, o := range r.objects {
		if !r.options.Clock.Now().Before(o.retryAt) {
			err := r.refresh(ctx, o)
			if err == nil {
				o.succeeded()
				continue
			}
			r.fail(ctx, &o.attempts, err)
		}
		sooner(next, o.retryAt)
		return false
	}
	return true
}

// writeSecret creates the Secret, or updates exactly the version for which the decision was made.
func (r *Rotator) writeSecret(ctx context.Context, decision webhookcert.Decision) error {
	data, err := decision.Issue(rand.Reader)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	if r.secret.live == nil {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.secret.key.Namespace, Name: r.secret.key.Name, Labels: r.options.Labels},
			Data:       data,
		}
		if err := r.options.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating %s: %w", r.secret.ref, nameNamespace(secret.Namespace, err))
		}
		r.secret.live = secret
		return nil
	}
	secret := r.secret.live.DeepCopyObject().(*corev1.Secret)
	secret.Data = data
	if err := r.options.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating %s: %w", r.secret.ref, err)
	}
	r.secret.live = secret
	return nil
}

// nameNamespace adds a reason to an error about a missing namespace, and returns all other errors as they are.
func nameNamespace(namespace string, err error) error {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return err
	}
	if details := answer.Status().Details; details == nil || details.Kind != "namespaces" {
		return err
	}
	return fmt.Errorf("%w: %w", reason.Reason{
		Code: NamespaceMissing, Detail: fmt.Sprintf("namespace %q does not exist", namespace), Remedy: "create it; this is tried again",
	}, err)
}

// injected reports whether all objects hold the CA bundle, and records the time if an object does not.
func (r *Rotator) injected(now time.Time) bool {
	all := r.material != nil
	for _, o := range r.objects {
		if !o.synced {
			all = false
			continue
		}
		if _, _ = r.compare(o); o.differs != nil {
			all = false
			r.disturb(o, now)
		}
	}
	return all
}

// disturb records that an object was observed without its CA bundle.
func (r *Rotator) disturb(o *object, now time.Time) {
	if now.Sub(r.seen.Disturbed) >= r.config.Overlap {
		r.seen.DisturbedSince = now
	}
	r.seen.Disturbed, r.seen.DisturbedBy = now, o.ref
}

func (r *Rotator) wanted() webhookcert.ClientConfig {
	return webhookcert.ClientConfig{
		Bundle: r.material.Bundle, Host: r.options.Host, Port: r.options.Port, Superset: r.config.External,
	}
}

// compare records whether an object lacks wanted values, and returns the patch that adds the values.
func (r *Rotator) compare(o *object) (webhookcert.Diff, error) {
	o.differs, o.unable = nil, reason.Reason{}
	if o.live == nil || r.material == nil {
		return webhookcert.Diff{}, nil
	}
	injection, err := o.kind.compare(o.live, r.wanted())
	switch {
	case errors.Is(err, webhookcert.NoConversionWebhook):
		o.unable = asReason(err)
	case err != nil: // the wanted values are invalid, so no object can hold the bundle
		o.differs = new(asReason(err))
		o.differs.Object = o.ref
	case len(injection.Differences) > 0:
		o.differs = &injection.Differences[0]
		o.differs.Object = o.ref
	}
	return injection, err
}

// injectAll repairs the objects, and reports whether any object was written.
func (r *Rotator) injectAll(ctx context.Context, next *time.Time) bool {
	wrote := false
	for _, o := range r.objects {
		if ctx.Err() != nil || r.material == nil || !o.synced {
			continue
		}
		if o.live == nil {
			o.differs = nil
			r.say(ctx, o, reason.Reason{Code: ObjectMissing, Remedy: "create it; it is watched for"})
			continue
		}
		_, err := r.compare(o)
		switch {
		case errors.Is(err, webhookcert.NoConversionWebhook):
			r.say(ctx, o, asReason(err))
		case err != nil:
			r.complain(ctx, &o.attempts, err)
		case o.differs == nil:
			r.settled(o)
		default:
			wrote = r.inject(ctx, o, next) || wrote
		}
	}
	return wrote
}

// settled forgets the last message about an object that now holds the bundle. If the message was RepairThrottled,
// settled keeps the message until nobody has changed the object for a while.
func (r *Rotator) settled(o *object) {
	if free, _ := o.bucket.peek(r.options.Clock.Now()); free || o.said.Code != RepairThrottled {
		o.said = reason.Reason{}
	}
}

// inject repairs an object. inject reads the Secret after the object, so that the patch does not remove an authority
// that another replica has just announced. If the object has changed since, the resourceVersion makes the patch fail.
func (r *Rotator) inject(ctx context.Context, o *object, next *time.Time) bool {
	now := r.options.Clock.Now()
	r.disturb(o, now)
	switch {
	case r.config.External:
		r.say(ctx, o, *o.differs)
		return false
	case now.Before(o.retryAt):
		sooner(next, o.retryAt)
		return false
	case !r.mayWrite(ctx, o, *o.differs, next):
		return false
	}
	if err := r.refresh(ctx, r.secret); err != nil {
		r.fail(ctx, &o.attempts, err)
		sooner(next, o.retryAt)
		return false
	}
	r.adopt(ctx)
	if _, err := r.policy.Read(r.data()); err != nil {
		return true // the Secret is damaged now and must be repaired first
	}
	injection, err := r.compare(o)
	if err != nil || injection.Patch == nil {
		return true
	}
	why := injection.Differences[0]
	before := o.live.GetResourceVersion()
	if err = r.patch(ctx, o, injection.Patch); err == nil {
		_, _ = r.compare(o)
		r.wrote(ctx, o, why)
		return true
	}
	// The API server responds with 422 both if a test of the patch fails and if the patch is invalid. If the object has
	// changed since the decision, a test of the patch has failed.
	if r.refresh(ctx, o) == nil && (o.live == nil || o.live.GetResourceVersion() != before) {
		return true
	}
	r.fail(ctx, &o.attempts, err)
	sooner(next, o.retryAt)
	return false
}

func (r *Rotator) patch(ctx context.Context, o *object, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	answer := o.live.DeepCopyObject().(client.Object)
	if err := r.options.Client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("patching %s: %w", o.ref, err)
	}
	o.live = answer
	return nil
}

// mayWrite takes a token from the object's bucket, which limits the rate of writes. If the bucket is empty, mayWrite
// reports the limit.
func (r *Rotator) mayWrite(ctx context.Context, o *object, why reason.Reason, next *time.Time) bool {
	may, again := o.bucket.take(r.options.Clock.Now())
	if !may {
		sooner(next, again)
	}
	// If the Rotator's own writes have failed, an empty bucket does not mean that somebody else writes the object.
	if !may && o.failures == 0 {
		r.say(ctx, o, throttled(why))
	}
	return may
}

// throttled is the reason if somebody changes the repaired value again and again.
func throttled(why reason.Reason) reason.Reason {
	out := reason.Reason{
		Code: RepairThrottled, Path: why.Path, Detail: string(why.Code) + " again and again", Remedy: "find out who else writes it (metadata.managedFields)",
	}
	if why.Code == webhookcert.ClientAddressDiffers {
		out.Old, out.New = why.Old, why.New
		out.Remedy = "give all replicas one host and port, of what passes requests on to them, and find out who else writes it (metadata.managedFields)"
	}
	return out
}

// sooner sets next to the time at if at is earlier than next.
func sooner(next *time.Time, at time.Time) {
	if !at.IsZero() && (next.IsZero() || at.Before(*next)) {
		*next = at
	}
}
