// Package checkup answers "what is wrong with this installation?"
//
// [Of] takes the objects of an installation of OpenKruise, or of the controllers of this project, and returns
// findings. Each finding has a remedy. The caller leaves out objects that could not be read, and Of reports no
// finding about such objects.
//
// All functions are pure and safe for concurrent use.
package checkup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the codes of findings.
const (
	// NotInstalled means: the API server serves no kind of OpenKruise.
	NotInstalled reason.Code = "NotInstalled"
	// CRDNotServed means: the API server does not serve a CRD.
	CRDNotServed reason.Code = "CRDNotServed"
	// OldStoredVersion means: objects may be stored in a version other than the storage version, so the old
	// version must not be removed from the CRD.
	OldStoredVersion reason.Code = "OldStoredVersion"
	// BundleMissing means: the configuration of a webhook contains no certificate authority for API servers.
	BundleMissing reason.Code = "BundleMissing"
	// BundleUnreadable means: the certificate authority of a webhook cannot be parsed.
	BundleUnreadable reason.Code = "BundleUnreadable"
	// BundleExpired means: all authorities of a webhook have expired.
	BundleExpired reason.Code = "BundleExpired"
	// BundleExpiresSoon means: all authorities of a webhook expire within thirty days.
	BundleExpiresSoon reason.Code = "BundleExpiresSoon"
	// BundleForeign means: the certificate of the server was not issued by the authority of a webhook.
	BundleForeign reason.Code = "BundleForeign"
	// CertificateExpired means: the certificate of the server has expired.
	CertificateExpired reason.Code = "CertificateExpired"
	// NobodyServes means: the Service of a webhook does not exist or has no ready Pod.
	NobodyServes reason.Code = "NobodyServes"
	// WebhooksMissing means: no admission webhook of OpenKruise is configured.
	WebhooksMissing reason.Code = "WebhooksMissing"
	// ManagerNotReady means: no replica of the manager is ready.
	ManagerNotReady reason.Code = "ManagerNotReady"
	// GateUnknown means: the manager is started with an unknown gate.
	GateUnknown reason.Code = "GateUnknown"
	// GateWithoutCRD means: a gate is on, and the API server does not serve the kinds of the gate.
	GateWithoutCRD reason.Code = "GateWithoutCRD"
	// RightMissing means: the manager's account lacks a right.
	RightMissing reason.Code = "RightMissing"
	// AgentsMissing means: no node agents are installed although features need the agents.
	AgentsMissing reason.Code = "AgentsMissing"
	// AgentsNotReady means: node agents are missing or not ready on Nodes.
	AgentsNotReady reason.Code = "AgentsNotReady"
)

// Facts are the objects of an installation.
type Facts struct {
	// CRDs are the CustomResourceDefinitions of OpenKruise.
	CRDs []unstructured.Unstructured
	// Hooks are the admission webhooks and the conversion webhooks in CRDs, each with an address and a CA bundle.
	Hooks []Hook
	// Ready is the number of ready addresses of each Service, keyed by "namespace/name". A Service that does not
	// exist has no key. IsReadyRead means that the Services were read.
	Ready       map[string]int
	IsReadyRead bool
	// Certificate is the PEM of the server's certificate; empty if not read.
	Certificate []byte
	// Manager is the manager's Deployment. Agents is the DaemonSet of the node agents. Both are nil if not found.
	// IsAgentsRead means that the DaemonSets were read.
	Manager      *appsv1.Deployment
	Agents       *appsv1.DaemonSet
	IsAgentsRead bool
	// Account is the manager's account "namespace/name", and LackingRights are the rights that the account lacks.
	Account       string
	LackingRights []string
	Now           time.Time
}

// Of returns the findings. Findings that stop the whole installation come first.
func Of(f Facts) reason.List {
	if len(f.CRDs) == 0 {
		return reason.List{{Code: NotInstalled, Detail: "the API server serves no CRD of " + facts.AppsGroup, Remedy: "install the CRDs: kubectl apply -k examples/config/crd"}}
	}
	return slices.Concat(f.crds(), f.manager(), f.hooks(), f.gates(), f.rights(), f.agents())
}

func crdObject(crd *unstructured.Unstructured) reason.Object {
	return reason.Object{Kind: "CustomResourceDefinition", Name: crd.GetName()}
}

// crds returns the findings about the CRDs: CRDs that are not served, and old stored versions.
func (f *Facts) crds() (list reason.List) {
	for i := range f.CRDs {
		crd := &f.CRDs[i]
		for _, c := range fields.Conditions(crd.Object) {
			if (c.Type == "Established" || c.Type == "NamesAccepted") && c.Status == "False" {
				list = append(list, reason.Reason{
					Code: CRDNotServed, Object: crdObject(crd), Path: "status.conditions[" + c.Type + "]", Detail: c.Message,
					Remedy: "remove what has the same names, or apply the CRD again",
				})
			}
		}
		storage := ""
		for _, version := range fields.List(crd.Object, "spec.versions") {
			if fields.Bool(version, "storage") {
				storage = fields.String(version, "name")
			}
		}
		old := slices.DeleteFunc(fields.Strings(crd.Object, "status.storedVersions"), func(v string) bool { return v == storage })
		if len(old) > 0 {
			list = append(list, reason.Reason{
				Code: OldStoredVersion, Object: crdObject(crd), Path: "status.storedVersions", Old: strings.Join(old, ","), New: storage,
				Detail: "objects may still be stored in an old version", Remedy: "rewrite the objects: kruise-manager migrate-storage",
			})
		}
	}
	return list
}

// manager returns a finding if no replica of the manager is ready.
func (f *Facts) manager() reason.List {
	if f.Manager == nil || f.Manager.Status.ReadyReplicas > 0 {
		return nil
	}
	return reason.List{{
		Code: ManagerNotReady, Object: reason.ObjectOf("Deployment", f.Manager), Path: "status.readyReplicas",
		Detail: fmt.Sprintf("0 of %d replicas are ready", f.Manager.Status.Replicas), Remedy: "see kubectl kruise why deployment/" + f.Manager.Name,
	}}
}

// agents returns the findings about the node agents, unless the manager runs with the gate KruiseDaemon off.
func (f *Facts) agents() reason.List {
	switch {
	case f.Manager == nil || !f.gate("KruiseDaemon", true) || !f.IsAgentsRead:
		return nil
	case f.Agents == nil:
		return reason.List{{
			Code: AgentsMissing, Detail: "the gate KruiseDaemon is on, and there is no DaemonSet kruise-daemon",
			Remedy: "install the agents, or start the manager with --feature-gates=KruiseDaemon=false",
		}}
	case f.Agents.Status.NumberReady < f.Agents.Status.DesiredNumberScheduled:
		return reason.List{{
			Code: AgentsNotReady, Object: reason.ObjectOf("DaemonSet", f.Agents), Path: "status.numberReady",
			Detail: fmt.Sprintf("agents are ready on %d of %d Nodes", f.Agents.Status.NumberReady, f.Agents.Status.DesiredNumberScheduled),
			Remedy: "see kubectl kruise why daemonset/" + f.Agents.Name,
		}}
	}
	return nil
}

// rights returns a finding for each permission that the manager lacks.
func (f *Facts) rights() (list reason.List) {
	for _, right := range f.LackingRights {
		list = append(list, reason.Reason{
			Code: RightMissing, Object: reason.Object{Kind: "ServiceAccount", Name: f.Account}, New: right,
			Remedy: "apply the roles: kubectl apply -k examples/config/rbac",
		})
	}
	return list
}
