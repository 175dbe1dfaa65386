package apply

import (
	"context"
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

// keep writes the Secret if its content demands it, and reports whether it did.
func (k *Keeper) keep(ctx context.Context, next *time.Time) bool {
	if k.options.External || ctx.Err() != nil {
		return false
	}
	now := k.options.Clock.Now()
	if now.Before(k.secret.retryAt) {
		sooner(next, k.secret.retryAt)
		return false
	}
	decision, sure := k.decideSurely(ctx, next)
	if !sure {
		return false
	}
	if !decision.Write {
		sooner(next, decision.Again)
		if decision.Reason.Code != "" {
			k.say(ctx, k.secret, decision.Reason)
		}
		return false
	}
	if !k.mayWrite(ctx, k.secret, decision.Reason, next) {
		return false
	}
	err := k.writeSecret(ctx, decision)
	switch {
	case err == nil:
		k.wrote(ctx, k.secret, decision.Reason)
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && !errors.Is(err, NamespaceMissing):
		// Another replica was quicker; it has probably done the same.
		if err = k.refresh(ctx, k.secret); err == nil {
			break
		}
		fallthrough
	default:
		k.fail(ctx, &k.secret.attempts, err)
		sooner(next, k.secret.retryAt)
		return false
	}
	k.adopt(ctx)
	return true
}

// decide asks what the Secret demands, by what is known now.
func (k *Keeper) decide() webhookcert.Decision {
	now := k.options.Clock.Now()
	k.seen.Injected = k.injected(now)
	return webhookcert.Decide(k.config, k.data(), k.seen, now)
}

// decideSurely is decide, and once more with objects that have just been read if a rotation's next step is about to be taken. It
// reports whether they could be read.
func (k *Keeper) decideSurely(ctx context.Context, next *time.Time) (webhookcert.Decision, bool) {
	decision := k.decide()
	if !decision.Write || decision.Reason.Code != webhookcert.OverlapOver {
		return decision, true
	}
	if !k.readObjects(ctx, next) {
		return decision, false
	}
	return k.decide(), true
}

// readObjects reads all objects from the API server, and reports whether that worked. It comes before a step that takes
// something from whoever lags: a watch that has silently died goes on showing the bundle that was there.
func (k *Keeper) readObjects(ctx context.Context, next *time.Time) bool {
	for _, o := range k.objects {
		if !k.options.Clock.Now().Before(o.retryAt) {
			err := k.refresh(ctx, o)
			if err == nil {
				o.succeeded()
				continue
			}
			k.fail(ctx, &o.attempts, err)
		}
		sooner(next, o.retryAt)
		return false
	}
	return true
}

// writeSecret creates the Secret, or updates the very version that was decided on.
func (k *Keeper) writeSecret(ctx context.Context, decision webhookcert.Decision) error {
	data, err := decision.Issue(k.config, k.options.Source)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	if k.secret.live == nil {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.secret.key.Namespace, Name: k.secret.key.Name, Labels: k.options.Labels},
			Data:       data,
		}
		if err := k.options.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating %s: %w", k.secret.ref, nameNamespace(secret.Namespace, err))
		}
		k.secret.live = secret
		return nil
	}
	secret := k.secret.live.DeepCopyObject().(*corev1.Secret)
	secret.Data = data
	if err := k.options.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating %s: %w", k.secret.ref, err)
	}
	k.secret.live = secret
	return nil
}

// nameNamespace adds a reason to an error that says that the namespace is not found, and returns others as they are.
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

// injected reports whether all objects hold the bundle, and notes the time if one does not.
func (k *Keeper) injected(now time.Time) bool {
	all := k.material != nil
	for _, o := range k.objects {
		if !o.synced {
			all = false
			continue
		}
		if _, _ = k.compare(o); o.differs != nil {
			all = false
			k.disturb(o, now)
		}
	}
	return all
}

// disturb notes that an object is without its bundle.
func (k *Keeper) disturb(o *object, now time.Time) {
	if now.Sub(k.seen.Disturbed) >= k.config.Overlap {
		k.seen.DisturbedSince = now
	}
	k.seen.Disturbed, k.seen.DisturbedBy = now, o.ref
}

func (k *Keeper) target() webhookcert.Target {
	return webhookcert.Target{
		Bundle: k.material.Bundle, Host: k.options.Host, Port: k.options.Port, Superset: k.options.External,
	}
}

// compare notes whether an object lacks what it should hold, and returns what would put it right.
func (k *Keeper) compare(o *object) (webhookcert.Injection, error) {
	o.differs, o.unable = nil, reason.Reason{}
	if o.live == nil || k.material == nil {
		return webhookcert.Injection{}, nil
	}
	injection, err := o.kind.compare(o.live, k.target())
	switch {
	case errors.Is(err, webhookcert.NoConversionWebhook):
		o.unable = asReason(err)
	case err != nil: // of the target, so that it never holds the bundle
		o.differs = new(asReason(err))
		o.differs.Object = o.ref
	case len(injection.Differences) > 0:
		o.differs = &injection.Differences[0]
		o.differs.Object = o.ref
	}
	return injection, err
}

// injectAll puts objects right, and reports whether one was written.
func (k *Keeper) injectAll(ctx context.Context, next *time.Time) bool {
	wrote := false
	for _, o := range k.objects {
		if ctx.Err() != nil || k.material == nil || !o.synced {
			continue
		}
		if o.live == nil {
			o.differs = nil
			k.say(ctx, o, reason.Reason{Code: ObjectMissing, Remedy: "create it; it is watched for"})
			continue
		}
		_, err := k.compare(o)
		switch {
		case errors.Is(err, webhookcert.NoConversionWebhook):
			k.say(ctx, o, asReason(err))
		case err != nil:
			k.complain(ctx, &o.attempts, err)
		case o.differs == nil:
			k.settled(o)
		default:
			wrote = k.inject(ctx, o, next) || wrote
		}
	}
	return wrote
}

// settled forgets what was said about an object that is right, once nobody has changed it for a while.
func (k *Keeper) settled(o *object) {
	if free, _ := o.bucket.peek(k.options.Clock.Now()); free || o.said.Code != RepairThrottled {
		o.said = reason.Reason{}
	}
}

// inject puts one object right. The Secret is read after the object was, so that an authority that another replica has
// just announced is not taken out again; if the object has changed since, its resourceVersion makes the patch fail.
func (k *Keeper) inject(ctx context.Context, o *object, next *time.Time) bool {
	now := k.options.Clock.Now()
	k.disturb(o, now)
	switch {
	case k.options.External:
		k.say(ctx, o, *o.differs)
		return false
	case now.Before(o.retryAt):
		sooner(next, o.retryAt)
		return false
	case !k.mayWrite(ctx, o, *o.differs, next):
		return false
	}
	if err := k.refresh(ctx, k.secret); err != nil {
		k.fail(ctx, &o.attempts, err)
		sooner(next, o.retryAt)
		return false
	}
	k.adopt(ctx)
	if _, err := k.read(); err != nil {
		return true // the Secret was broken in the meantime and comes first
	}
	injection, err := k.compare(o)
	if err != nil || injection.Patch == nil {
		return true
	}
	why := injection.Differences[0]
	before := o.live.GetResourceVersion()
	if err = k.patch(ctx, o, injection.Patch); err == nil {
		_, _ = k.compare(o)
		k.wrote(ctx, o, why)
		return true
	}
	// A test that fails is 422 to the API server, as is a patch that it refuses. What the object is now tells them apart.
	if k.refresh(ctx, o) == nil && (o.live == nil || o.live.GetResourceVersion() != before) {
		return true
	}
	k.fail(ctx, &o.attempts, err)
	sooner(next, o.retryAt)
	return false
}

func (k *Keeper) patch(ctx context.Context, o *object, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	answer := o.live.DeepCopyObject().(client.Object)
	if err := k.options.Client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("patching %s: %w", o.ref, err)
	}
	o.live = answer
	return nil
}

// mayWrite takes a write from the object's bucket, or says that there is none.
func (k *Keeper) mayWrite(ctx context.Context, o *object, why reason.Reason, next *time.Time) bool {
	may, again := o.bucket.take(k.options.Clock.Now())
	if !may {
		sooner(next, again)
	}
	if !may && o.failures == 0 { // otherwise nobody else has written it
		k.say(ctx, o, reason.Reason{
			Code: RepairThrottled, Path: why.Path, Detail: string(why.Code) + " again and again",
			Remedy: "find out who else writes it (metadata.managedFields)",
		})
	}
	return may
}

// sooner makes at the time to look again if it is earlier than what is there.
func sooner(next *time.Time, at time.Time) {
	if !at.IsZero() && (next.IsZero() || at.Before(*next)) {
		*next = at
	}
}
