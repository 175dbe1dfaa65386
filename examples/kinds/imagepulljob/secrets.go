package imagepulljob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/pullsecret"
)

// synced records the last check of a job's Secret copies. As long as the resource versions of the sources and copies
// stay the same, the copies are up to date.
type synced struct {
	versions string
	copies   []string
	why      string
}

// secretsOf brings the copies of a job's pull secrets up to date, and returns the references for NodeImages. Secrets
// in the namespace of the copies are not copied. If kubelets pull, there are no references, and the job releases
// copies made before.
func (r *Reconciler) secretsOf(ctx context.Context, v *view, pass *fanout.Pass, s *settings, kubelets bool) ([]v1beta1.ReferenceObject, error) {
	if kubelets {
		return nil, r.letGo(ctx, v, pass)
	}
	if !s.isCopied {
		return direct(s.secrets), nil
	}
	if err := r.setFinalizer(ctx, v, pass, true); err != nil {
		return nil, err
	}
	known, versions := r.synced.Of(v.Owner.UID), r.versions(v.Owner)
	if known.versions != versions {
		plan, err := r.plan(ctx, v.Owner, true)
		if err != nil {
			return nil, err
		}
		known = synced{versions: versions, copies: plan.Of(holder(v.Owner)), why: plan.Why.String()}
		if !plan.isIdle() {
			known.versions = "" // the next reconcile reads the new versions
			err = pass.Once(ctx, fanout.Task{Name: "copy pull secrets"}, func() (bool, error) { return true, r.carryOut(ctx, v, plan) })
			if err != nil {
				return nil, err
			}
			known.copies = plan.Of(holder(v.Owner))
		}
		r.synced.Change(v.Owner.UID, func(k *synced) { *k = known })
	}
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventPullSecretUnused, known.why)
	return copied(known.copies), nil
}

func direct(names []string) (out []v1beta1.ReferenceObject) {
	for _, name := range names {
		out = append(out, v1beta1.ReferenceObject{Namespace: apps.NamespacePullSecrets, Name: name})
	}
	return out
}

func copied(names []string) (out []v1beta1.ReferenceObject) {
	for _, name := range names {
		out = append(out, v1beta1.ReferenceObject{Namespace: apps.NamespacePullSecrets, Name: name, Mode: v1beta1.ReferenceModeBatch})
	}
	return out
}

// holder returns the name of a job in the annotation of a copy that lists the copy's holders, which are the jobs that
// need the copy.
func holder(job *v1beta1.ImagePullJob) string { return job.Namespace + "/" + job.Name }

// versions returns the resource versions of the sources and of the copies in the cache.
func (r *Reconciler) versions(job *v1beta1.ImagePullJob) string {
	out := []string{job.Spec.Image}
	for _, name := range job.Spec.PullSecrets {
		version := ""
		if source, ok := r.secrets.Get(job.Namespace, name); ok {
			version = source.GetResourceVersion()
		}
		out = append(out, name+"="+version)
	}
	for _, c := range r.copiesFor(job) {
		out = append(out, c.GetName()+"="+c.GetResourceVersion())
	}
	return strings.Join(out, ",")
}

// copiesFor returns the metadata of all copies of the Secrets in a job's spec, and of all copies whose annotation
// names the job as a holder. The copies are ordered by name.
func (r *Reconciler) copiesFor(job *v1beta1.ImagePullJob) []client.Object {
	all := slices.Clone(r.secrets.By(holderIndex, holder(job)))
	for _, name := range job.Spec.PullSecrets {
		all = append(all, r.secrets.By(sourceIndex, job.Namespace+"/"+name)...)
	}
	slices.SortFunc(all, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return slices.CompactFunc(all, func(a, b client.Object) bool { return a.GetName() == b.GetName() })
}

// plan reads the sources and the copies from the API server, because the cache has no data of Secrets, and decides
// which copies to write. The plan keeps as holders the jobs that still run and, if wanted is true, the given job.
func (r *Reconciler) plan(ctx context.Context, job *v1beta1.ImagePullJob, wanted bool) (*copyPlan, error) {
	live := map[string]*corev1.Secret{}
	var copies []pullsecret.Copy
	var holders []pullsecret.Holder
	names := map[types.NamespacedName]bool{}
	add := func(other *v1beta1.ImagePullJob) {
		h := holderOf(other)
		for _, name := range h.Sources {
			names[name] = true
		}
		holders = append(holders, h)
	}
	if wanted {
		add(job)
	}
	seen := map[string]bool{holder(job): true}
	for _, found := range r.copiesFor(job) {
		secret, c, err := r.readCopy(ctx, found)
		if err != nil {
			return nil, err
		}
		if secret == nil {
			continue
		}
		live[c.Name], copies = secret, append(copies, c)
		for _, name := range c.Holders {
			if other := r.running(name); !seen[name] && other != nil {
				add(other)
			}
			seen[name] = true
		}
	}
	var sources []pullsecret.Source
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		source := r.read(ctx, name)
		if source.Err != nil { // the next attempt comes soon, and the copies stay as before
			return nil, fmt.Errorf("reading pull secret %s: %w", name, source.Err)
		}
		sources = append(sources, source)
	}
	return &copyPlan{pullsecret.Synced(sources, copies, holders), live}, nil
}

// copyPlan contains the copies to write. live are the copies as read from the API server, by name. A write fails with
// a conflict if a copy has changed since that read.
type copyPlan struct {
	pullsecret.Plan

	live map[string]*corev1.Secret
}

// isIdle reports whether nothing is to be written.
func (p *copyPlan) isIdle() bool { return len(p.Make)+len(p.Refresh)+len(p.Drop) == 0 }

// running returns the job with the name of a holder, if the job still needs copies.
func (r *Reconciler) running(name string) *v1beta1.ImagePullJob {
	namespace, name, _ := strings.Cut(name, "/")
	job, ok := r.cache.Owners.Get(namespace, name)
	if !ok || job.DeletionTimestamp != nil || hasEnded(job) || r.isThroughKubelet(job) || !r.settings.Of(job).isCopied {
		return nil
	}
	return job
}

func holderOf(job *v1beta1.ImagePullJob) pullsecret.Holder {
	h := pullsecret.Holder{Name: holder(job)}
	for _, name := range job.Spec.PullSecrets {
		h.Sources = append(h.Sources, types.NamespacedName{Namespace: job.Namespace, Name: name})
	}
	if image, err := imagepull.Parse(job.Spec.Image); err == nil {
		h.Images = []pullsecret.Image{{Host: image.Registry(), Path: image.Path()}}
	}
	return h
}

func (r *Reconciler) read(ctx context.Context, name types.NamespacedName) pullsecret.Source {
	secret := &corev1.Secret{}
	switch err := r.cache.APIReader().Get(ctx, name, secret); {
	case apierrors.IsNotFound(err):
		return pullsecret.Source{Name: name}
	case err != nil:
		return pullsecret.Source{Name: name, Err: err}
	}
	return pullsecret.Source{Name: name, Secret: secret}
}

// readCopy reads a copy from the API server. The result is nil if the Secret does not exist or is no copy.
func (r *Reconciler) readCopy(ctx context.Context, found client.Object) (*corev1.Secret, pullsecret.Copy, error) {
	secret := &corev1.Secret{}
	err := r.cache.APIReader().Get(ctx, client.ObjectKeyFromObject(found), secret)
	namespace, name, isCopy := strings.Cut(secret.Annotations[apps.AnnotationSecretSource], "/")
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, pullsecret.Copy{}, fmt.Errorf("reading the copy %s of a pull secret: %w", found.GetName(), err)
	case err != nil || !isCopy || secret.DeletionTimestamp != nil:
		return nil, pullsecret.Copy{}, nil //nolint:nilerr // the copy was deleted
	}
	return secret, pullsecret.Copy{
		Name: secret.Name, Source: types.NamespacedName{Namespace: namespace, Name: name}, Holders: holdersOf(secret),
		Content: pullsecret.Content{Type: secret.Type, Data: secret.Data},
	}, nil
}

// carryOut writes copies as planned, and adds the names of new copies to the plan.
func (r *Reconciler) carryOut(ctx context.Context, v *view, plan *copyPlan) error {
	var errs []error
	for i := range plan.Make {
		c := &plan.Make[i]
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: apps.NamespacePullSecrets, Name: nameOf(c)}}
		fill(secret, c)
		err := v.Client.Create(ctx, secret)
		if err != nil {
			errs = append(errs, fmt.Errorf("copying pull secret %s: %w", c.Source, err))
			continue
		}
		c.Name = secret.Name
	}
	for i := range plan.Refresh {
		c := &plan.Refresh[i]
		secret := plan.live[c.Name]
		fill(secret, c)
		if err := v.Client.Update(ctx, secret); err != nil {
			errs = append(errs, fmt.Errorf("refreshing the copy %s of a pull secret: %w", c.Name, err))
		}
	}
	for i := range plan.Drop {
		secret := plan.live[plan.Drop[i].Name]
		err := v.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting the copy %s of a pull secret: %w", secret.Name, err))
		}
	}
	return errors.Join(errs...)
}

// nameOf returns the name of a new copy in OpenKruise's form: the source's name and six hexadecimal digits. The
// digits depend on the source and the first holder, so a repeated creation makes no second copy.
func nameOf(c *pullsecret.Copy) string {
	const longest = 253 - len("-abcdef")
	sum := sha256.Sum256([]byte(c.Source.String() + " " + c.Holders[0]))
	name := strings.TrimRight(c.Source.Name[:min(len(c.Source.Name), longest)], ".-")
	return name + "-" + hex.EncodeToString(sum[:3])
}

// fill sets the content of a copy. Labels and annotations of the source are not copied, unlike in OpenKruise.
func fill(secret *corev1.Secret, c *pullsecret.Copy) {
	secret.Type, secret.Data = c.Content.Type, c.Content.Data
	secret.Labels = nil
	secret.Annotations = map[string]string{
		apps.AnnotationSecretSource: c.Source.String(), apps.AnnotationSecretHolders: strings.Join(c.Holders, ","), apps.AnnotationSecretMode: string(v1beta1.ReferenceModeBatch),
	}
}

// releaseCopies removes a job from the lists of jobs that need a copy. For a job without copies, no request is sent,
// so neither a missing Secret nor a missing namespace delays the end of a job.
func (r *Reconciler) releaseCopies(ctx context.Context, v *view, pass *fanout.Pass) error {
	if len(r.secrets.By(holderIndex, holder(v.Owner))) == 0 {
		return nil
	}
	plan, err := r.plan(ctx, v.Owner, false)
	if err != nil || plan.isIdle() {
		return err
	}
	return pass.Once(ctx, fanout.Task{Name: "release pull secrets"}, func() (bool, error) { return true, r.carryOut(ctx, v, plan) })
}

// secretsOfOwners returns the Secret references of all jobs that own a tag. own are the references of the given job.
func (r *Reconciler) secretsOfOwners(image *v1beta1.NodeImage, of imagepull.Reference, job *v1beta1.ImagePullJob, own []v1beta1.ReferenceObject) []v1beta1.ReferenceObject {
	out := slices.Clone(own)
	for _, ref := range image.Spec.Images[of.Name()].Tags {
		if ref.Tag != of.Version() {
			continue
		}
		for _, owner := range ref.OwnerReferences {
			if owner.UID == job.UID {
				continue
			}
			if other, ok := r.cache.Owners.Get(owner.Namespace, owner.Name); ok && owner.Namespace == apps.NamespacePullSecrets {
				out = append(out, direct(other.Spec.PullSecrets)...)
				continue
			}
			for _, c := range r.secrets.By(holderIndex, owner.Namespace+"/"+owner.Name) {
				out = append(out, copied([]string{c.GetName()})...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b v1beta1.ReferenceObject) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b v1beta1.ReferenceObject) bool { return a.Name == b.Name && a.Namespace == b.Namespace })
}
