// Package workloadkit is the entry to a kit of parts for Kubernetes workload controllers. The package holds no code;
// import the package with the answer to your question.
//
// Decide: packages turn values into a decision.
//
//	ordinals             which numbers do Pods have, with a start and reserved ranges?
//	revision             has the template changed, and from which template was a Pod made?
//	rollout              how many Pods to create, delete and update now, to which revision, and why no more?
//	rollout/numbered     which numbered Pods to create, delete and update now, and why no more?
//	rollout/pernode      on which Nodes to create, delete and update Pods now, and why no more?
//	rollout/partition    how many is that?
//	subsets              how many Pods in which subset (a zone, a node pool, a cluster), and which is this Pod's subset?
//	completion           is a job over, how many Pods may run now, and when do I have to look again?
//	podorder             which Pod first, to update and to delete?
//	inplaceupdate        can a Pod get a new template without being recreated, and is the update done?
//	inplaceupdate/runtimemeta do containers run with the Pod's present labels and annotations?
//	lifecycle            may I delete or update this Pod now, or does somebody have to finish something first?
//	sidecarcontrol       which sidecars does a Pod get, and may the Pod get newer sidecars now?
//	disruption           may this Pod be taken out of service now?
//	podreadiness         who keeps this Pod from being ready?
//	podcontrol           what does a single Pod need now?
//	adopt                which of these objects are mine?
//	nodefit              may a Pod run on a Node?
//	pvc                  which claims does a Pod need, which of them are missing, and which may be deleted?
//
// Know: packages know the facts behind the decisions.
//
//	ownercache           what does an owner have, and may I decide now?
//	expectations         has my cache seen my own writes?
//	podstate             what state is this Pod in?
//	decode               what does this JSON say, and what of it makes no sense?
//
// Act: packages carry decisions out.
//
//	podpatch             which requests carry out all of these decisions?
//	fanout               how do I act on many Pods at once, without starving others or repeating what is refused?
//	ownercache/fairqueue how do I keep one namespace from holding up all the others?
//
// On Nodes, in module node:
//
//	node/containerrestart which container may be stopped now, and is it back?
//	node/imagepull        how do images get to Nodes in advance, and how far is each Node?
//	node/probing          do the probes of a Pod pass, and which conditions and labels follow?
//	node/pullsecret       which credentials fit an image, and who may have a copy?
//	node/cri              how do I ask the container runtime of a Node for containers and images?
//	node/agent            how does my own agent work on every Node?
//
// Serve and explain.
//
//	webhookcert          which certificate does a webhook server show, and whom do its clients trust?
//	reason               why did it decide that?
//
// # A reconcile
//
// A controller calls the packages in this order: observe, resolve, history, decide, act, report.
//
//	ownercache.Cache.Observe     the owner, its Pods and revisions, once the cache shows all own writes
//	partition, ordinals          numbers of the spec, and for Pods per Node the fitting Nodes: nodefit
//	revision/history.Sync        the revision of today's template
//	podcontrol.Reader.Read       the ready, available and updated Pods, and Pods to delete
//	rollout.Plan                 how many Pods to create, delete and update; numbered.Plan and pernode.Plan:
//	                             of which ordinals, on which Nodes
//	completion.Next              for jobs, instead of a rollout: how many to start, and whether the job is over;
//	                             completion/noderun creates the Pods
//	podcontrol.Set.Choose...     the Pods for the numbers, in order and within the budget
//	fanout.Pass, Each            create, delete, update, until something has changed
//	podcontrol/executor          each Pod's needs, and the handling of refusals
//	ownercache.View.WriteStatus  the report, and fanout.Pass.Result
//
// A second loop reconciles single Pods and finishes updates in progress: podcontrol/executor adds the loop to the
// manager. The module in examples has six whole operators to copy from: examples/embed/fleet (equal Pods),
// examples/embed/agents (a Pod on every Node), examples/embed/gameservers (numbered Pods), examples/embed/shards
// (numbered Pods with volumes and a budget), examples/embed/nodejobs (a program once on every Node) and
// examples/embed/sidecars (a container injected into Pods of other owners).
//
// # Decide, then act
//
// Every mechanism has a deciding half without effects, and an acting half with requests to the API server. The deciding
// half is package x: x takes values and returns a decision, without client, clock, randomness or log, so the same input
// always gives the same answer. A test can fuzz x, a webhook can call x to predict a rollout, and a reader can learn
// from x how a system behaves. The acting half is a package below x, named for the service: the acting half takes a
// client and writes the decision, with as few requests as the API allows.
//
//	expectations/trackedclient   clients with awaited writes
//	ownercache/watchhealth       informers with quickly restored watches, for kinds served only at times
//	ownercache/sharedstatus      stores decisions in a status with several writers, many in a single write
//	revision/history             finds, writes and truncates revisions
//	podpatch/podwrite            sends patches
//	podreadiness/gatewriter      holds and releases a readiness gate
//	disruption/guard             spends from budgets, for webhooks in several replicas
//	podcontrol/executor          carries out a Pod's needs
//	sidecarcontrol/podwebhook    answers the API server about new Pods
//	sidecarcontrol/upgrader      upgrades the sidecars of Pods
//	adopt/ownerrefs              adopts and releases
//	pvc/claimwriter              creates, hands over and deletes claims
//	decode/specwebhook           refuses senseless specs at admission
//	webhookcert/rotator          serves, rotates and injects certificates
//
// Package podpatch is between deciders and writers: deciders return changes, and podpatch merges all deciders' changes
// of a Pod into at most one patch each for pods, pods/status and pods/resize.
//
// # Reasons are data
//
// Every refusal, wait and fallback has a reason.Reason: a stable code, a field path, the value found there and a
// remedy. See docs/reasons.md for all codes. The codes are part of the API.
//
// # Layers
//
// Packages import only packages of lower layers, as a test at the root checks. Deciding halves import k8s.io/api,
// apimachinery and utils alone. The kit has no own API types: annotation, label and condition names are Keys given by
// the caller and checked by constructors.
package workloadkit
