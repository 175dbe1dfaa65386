// Package storagemigration answers "how are the objects of a CRD stored in another version?". [Migrate] makes the new
// version the storage version of the CRD, writes every object once more, and removes all other versions from
// status.storedVersions. The API server refuses a CRD that lacks a version listed in status.storedVersions. The CRDs of
// OpenKruise 1.9.0 lack v1beta1 for several kinds, so a migration is necessary before OpenKruise's CRDs can replace
// this project's CRDs.
//
// The API server converts the objects when they are written, so the manager must be running and serving its webhooks. A
// migration can be stopped and repeated at any time: objects that are stored in the new version already are not
// changed.
package storagemigration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say which CRDs to migrate, and how.
type Options struct {
	// CRDs are the names of the CustomResourceDefinitions. Required.
	CRDs []string
	// To is the version in which the objects must be stored. To is required; each CRD must contain and serve the
	// version.
	To string
	// DryRun makes Migrate only read and report; nothing is written.
	DryRun bool
	// Report is called after each step. Optional.
	Report func(Step)
	// Settle is how long the API servers may take to learn of the new storage version. 0 means 10 seconds.
	Settle time.Duration
	// Clock tells the time; nil means the real clock.
	Clock clock.WithTicker
}

// Step describes the progress of the migration of a CRD.
type Step struct {
	CRD string
	// From is the storage version before the migration. If nothing has to be migrated, From equals To.
	From string
	// Written is the number of objects that have been written so far. In a dry run, Written is the number of objects
	// that would be written.
	Written int
	// Done is true once every object is stored in the version To, and status.storedVersions contains only To.
	Done bool
}

const (
	pageSize      = 500
	defaultSettle = 10 * time.Second
)

// ErrNotServed is wrapped by errors about a CRD that does not contain or does not serve the version.
var ErrNotServed = errors.New("the version is not served")

// Migrate migrates the CRDs one by one. If the migration of a CRD fails, Migrate continues with the next CRD. The error
// names each object that the API server has refused to write. If an object of a CRD was refused, the CRD's
// status.storedVersions is not changed.
func Migrate(ctx context.Context, c client.Client, o Options) error {
	if o.To == "" || len(o.CRDs) == 0 {
		return errors.New("storagemigration: Options.CRDs and Options.To are required")
	}
	if o.Report == nil {
		o.Report = func(Step) {}
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	var errs []error
	failed := func(name string, err error) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("migrating %s to %s: %w", name, o.To, err))
		}
		return err != nil
	}
	var all []*migration
	settle := false
	for _, name := range o.CRDs {
		m := &migration{Options: o, client: c, name: name}
		if !failed(name, m.store(ctx)) {
			all, settle = append(all, m), settle || m.mixed
		}
	}
	if settle && !o.DryRun {
		select {
		case <-ctx.Done():
			return errors.Join(append(errs, ctx.Err())...)
		case <-o.Clock.After(o.Settle):
		}
	}
	for _, m := range all {
		failed(m.name, m.run(ctx))
	}
	return errors.Join(errs...)
}

// migration is the migration of a single CRD.
type migration struct {
	Options

	client  client.Client
	name    string
	from    string
	mixed   bool // objects may be stored in several versions, so Migrate waits for the time Options.Settle
	written int
}

// run migrates the objects after store has changed the CRD.
func (m *migration) run(ctx context.Context) error {
	crd, err := m.settled(ctx)
	if err != nil {
		return err
	}
	m.Report(Step{CRD: m.name, From: m.from})
	if slices.Equal(crd.Status.StoredVersions, []string{m.To}) && m.from == m.To {
		m.Report(Step{CRD: m.name, From: m.from, Done: true})
		return nil
	}
	if err := m.rewrite(ctx, schema.GroupVersionKind{Group: crd.Spec.Group, Version: m.To, Kind: crd.Spec.Names.ListKind}); err != nil || m.DryRun {
		return err
	}
	if err := m.forget(ctx); err != nil {
		return err
	}
	m.Report(Step{CRD: m.name, From: m.from, Written: m.written, Done: true})
	return nil
}

func (m *migration) read(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, *unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := m.client.Get(ctx, client.ObjectKey{Name: m.name}, object); err != nil {
		return nil, nil, fmt.Errorf("reading the CRD: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return nil, nil, fmt.Errorf("decoding the CRD: %w", err)
	}
	return crd, object, nil
}

// store makes the new version the storage version of the CRD.
func (m *migration) store(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd, object, err := m.read(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == m.To })
		if at < 0 || !crd.Spec.Versions[at].Served {
			return ErrNotServed
		}
		m.mixed = !slices.Equal(crd.Status.StoredVersions, []string{m.To})
		if m.from = storageVersion(crd); m.from == m.To || m.DryRun {
			return nil
		}
		versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
		if err != nil {
			return err
		}
		for i := range versions {
			if version, ok := versions[i].(map[string]any); ok {
				version["storage"] = version["name"] == m.To
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		m.mixed = true
		return m.client.Update(ctx, object)
	})
}

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return crd.Spec.Versions[i].Name
		}
	}
	return ""
}

// settled waits until status.storedVersions contains the new version.
func (m *migration) settled(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, error) {
	for {
		crd, _, err := m.read(ctx)
		if err != nil || m.DryRun || slices.Contains(crd.Status.StoredVersions, m.To) {
			return crd, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.Clock.After(time.Second):
		}
	}
}

// rewrite writes each object once more, without changes. A conflict is not an error: another client has written the
// object meanwhile, and thereby stored the object in the new version.
func (m *migration) rewrite(ctx context.Context, kind schema.GroupVersionKind) error {
	var refused []error
	for next := ""; ; {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := m.client.List(ctx, list, client.Limit(pageSize), client.Continue(next))
		if token := continuation(err); token != "" {
			next = token
			continue
		}
		if err != nil {
			return errors.Join(append(refused, fmt.Errorf("listing: %w", err))...)
		}
		for i := range list.Items {
			if err := m.write(ctx, &list.Items[i]); err != nil {
				refused = append(refused, err)
			}
			if ctx.Err() != nil {
				return errors.Join(append(refused, ctx.Err())...)
			}
		}
		m.Report(Step{CRD: m.name, From: m.from, Written: m.written})
		if next = list.GetContinue(); next == "" {
			return errors.Join(refused...)
		}
	}
}

// continuation returns a token with which a list can continue although the token of the list has expired; "" if the
// error has another cause. The remaining pages then show a later state of the cluster than the pages before. The
// difference does not matter, because newer objects are stored in the new version anyway.
func continuation(err error) string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().ListMeta.Continue
}

func (m *migration) write(ctx context.Context, object *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(object)
	if !m.DryRun {
		err := m.client.Update(ctx, object)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", object.GetKind(), key, err)
		}
	}
	m.written++
	return nil
}

// forget removes all versions except To from status.storedVersions.
func (m *migration) forget(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd, object, err := m.read(ctx)
		if err != nil {
			return err
		}
		if stored := storageVersion(crd); stored != m.To {
			return fmt.Errorf("somebody else has made %s the storage version meanwhile", stored)
		}
		if err := unstructured.SetNestedStringSlice(object.Object, []string{m.To}, "status", "storedVersions"); err != nil {
			return err
		}
		return m.client.Status().Update(ctx, object)
	})
}
