package workloadkit_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layer is a row of the table layers: packages, and the imports that they may have.
type layer struct {
	// packages is a path from the root, or a pattern: "x/*" matches all packages directly below x, and "x/..." matches x
	// and all packages below x.
	packages string
	kind     kind
	// imports lists the allowed packages and patterns of the repository, separated by spaces. A standard package that
	// the kind forbids is allowed if listed here.
	imports string
}

// kind limits the imports from other modules.
type kind string

const (
	pure   kind = "pure"   // decides: values in, a decision out
	acting kind = "acting" // sends, watches or serves
	types  kind = "types"  // declares the types of an API
	free   kind = "free"   // may import every module that its own module requires
)

// layers returns the table. The rows of the kit come first, from the lowest layer up: a row names only packages of
// earlier rows. The first matching row counts. Tests may import any package.
func layers() []layer {
	return []layer{
		{"reason", pure, ""},
		{"decode", pure, "reason"},
		{"podstate", pure, ""},
		{"pvc", pure, "reason"},
		{"rollout/partition", pure, "reason"},
		{"ordinals", pure, "reason"},
		{"expectations", pure, "reason"},
		{"adopt", pure, "reason"},
		{"nodefit", pure, "podstate reason"},
		{"completion", pure, "nodefit podstate reason rollout/partition"},
		{"webhookcert", pure, "reason crypto/rand"}, // makes private keys
		{"rollout/internal/limits", pure, "reason"}, // only for the three plans
		{"rollout", pure, "reason"},
		{"rollout/numbered", pure, "ordinals reason rollout"},
		{"rollout/pernode", pure, "reason rollout"},
		{"disruption", pure, "reason rollout/partition"},
		{"revision", pure, "decode pvc reason"},
		{"podorder", pure, "podstate reason"},
		{"subsets", pure, "podorder podstate reason rollout/partition"},
		{"podpatch", pure, "podstate reason"},
		{"podreadiness", pure, "podpatch podstate reason"},
		{"lifecycle", pure, "podpatch podstate reason"},
		{"inplaceupdate/runtimemeta", pure, "decode podstate reason"},
		{"inplaceupdate", pure, "decode inplaceupdate/runtimemeta podpatch podstate reason revision"},
		{"podcontrol", pure, "inplaceupdate lifecycle nodefit ordinals podorder podpatch podreadiness podstate pvc reason revision rollout rollout/numbered rollout/pernode"},

		{"sidecarcontrol/sizing", pure, "reason"},
		{"sidecarcontrol", pure, "inplaceupdate podorder podpatch podstate reason rollout sidecarcontrol/sizing"},

		{"ownercache/fairqueue", acting, ""},
		{"podpatch/podwrite", acting, "podpatch reason"},
		{"podreadiness/gatewriter", acting, "podpatch podpatch/podwrite podreadiness reason"},
		{"fanout", acting, "podpatch/podwrite reason"},
		{"adopt/ownerrefs", acting, "fanout reason"},
		{"revision/history", acting, "revision"},
		{"pvc/claimwriter", acting, "fanout pvc reason"},
		{"expectations/trackedclient", acting, "expectations reason"},
		{"ownercache", acting, "expectations expectations/trackedclient nodefit ordinals ownercache/fairqueue"},
		{"ownercache/watchhealth", acting, "reason"},
		{"podcontrol/executor", acting, "disruption fanout inplaceupdate lifecycle nodefit ordinals ownercache podcontrol podpatch podpatch/podwrite podstate pvc pvc/claimwriter reason revision revision/history rollout rollout/numbered rollout/pernode"},
		{"completion/noderun", acting, "completion fanout nodefit ownercache podstate reason"},
		{"ownercache/sharedstatus", acting, ""},
		{"disruption/guard", acting, "decode disruption ownercache/sharedstatus reason"},
		{"sidecarcontrol/podwebhook", acting, "decode reason sidecarcontrol"},
		{"sidecarcontrol/upgrader", acting, "fanout ownercache podpatch podpatch/podwrite podstate sidecarcontrol"},
		{"webhookcert/rotator", acting, "reason webhookcert"},
		{"decode/specwebhook", acting, ""},
		{"internal/clustertest", acting, ""}, // only for tests
		{".", pure, ""},                      // the package comment of the whole kit

		// Module node is separate, and the root module does not import it.
		{"node/internal/podaddress", pure, ""},
		{"node/internal/background", acting, ""},
		{"node/containerrestart", pure, "completion node/internal/podaddress reason"},
		{"node/containerrestart/batch", pure, "completion podstate reason rollout"},
		{"node/containerrestart/stopper", acting, "node/containerrestart node/internal/background reason"},
		{"node/imagepull", pure, "completion reason"},
		{"node/probing", pure, "node/internal/podaddress podpatch podstate reason"},
		{"node/probing/prober", free, "node/probing reason"}, // uses gRPC
		{"node/pullsecret", pure, "reason"},
		{"node/imagepull/kubeletpull", pure, "node/imagepull reason"},
		{"node/imagepull/puller", acting, "node/imagepull node/internal/background node/pullsecret reason"},
		{"node/pullsecret/execprovider", acting, "node/pullsecret reason"},
		{"node/cri", free, "node/containerrestart node/imagepull node/pullsecret reason"}, // uses gRPC
		{"node/agent", free, "node/containerrestart node/containerrestart/stopper node/cri podstate reason"},

		{"testing/child", free, ""},
		{"testing/install", free, ""},
		{"testing/faultapi", free, "nodefit podstate testing/internal/imagename"},
		{"testing/fakeregistry", free, "testing/internal/sleep"},
		{"testing/fakecri", free, "testing/internal/imagename testing/internal/sleep"},
		{"testing/fakecri/containerconfig", free, "testing/fakecri"},
		{"testing/fakecri/program", free, "testing/fakecri testing/internal/sleep"},
		{"testing/fakecri/scripted", free, "testing/fakecri testing/fakecri/program"},
		{"testing/fakecri/imagestore", free, "testing/fakecri testing/internal/imagename"},
		{"testing/fakecri/podview", free, "testing/controlplane testing/fakecri testing/fakecri/containerconfig testing/fakecri/program"},
		{"testing/fakecri/faultnodes", free, "testing/fakecri testing/fakecri/containerconfig testing/fakecri/program testing/faultapi"},
		{"testing/fakecri/cmd/nodeagents", free, "testing/child testing/fakecri testing/fakecri/podview"},
		{"testing/faultapi/faultmanager", free, "testing/faultapi"},
		{"testing/chaos", free, "podstate testing/faultapi testing/faultapi/faultmanager"},
		{"testing/rehearsal", free, "nodefit podstate testing/faultapi testing/faultapi/faultmanager"},
		{"testing/bench/picture", free, ""},
		{"testing/bench", free, "testing/... fanout podstate rollout/partition"},
		{"testing/...", free, "testing/child testing/controlplane/... testing/fakeregistry testing/internal/..."},

		// Admission parses counts as the controllers do, and gives the same reasons for refusals.
		{"examples/apis/...", types, "examples/apis/... decode ordinals podstate pvc reason rollout/partition sidecarcontrol/sizing"},
		{"examples/launchorder", pure, "podpatch podstate reason"},
		{"examples/kruise/metrics", free, "expectations reason"},
		{"examples/kruise/judge", pure, "examples/apis/... decode node/imagepull podorder reason rollout/partition"}, // checks of specs
		{"examples/kruise/probes", pure, "examples/apis/... node/probing reason"},
		{"examples/kruise/faulttest", free, "examples/apis/apps examples/apis/apps/v1beta1 examples/kruise/judge reason"},
		{"examples/kruise/restart", pure, "completion examples/apis/... examples/kruise/judge lifecycle node/containerrestart/batch podcontrol podstate reason rollout"},
		{"examples/kruise/predownload", pure, "examples/apis/... examples/kruise/judge podcontrol rollout/partition"},
		{"examples/kruise", free, "KIT examples/apis/... examples/kruise/metrics examples/kruise/predownload examples/kruise/restart examples/launchorder"}, // shared by all kinds
		{"examples/controllertest", free, "examples/apis/apps/conversion examples/config examples/manager testing/child testing/controlplane/..."},
		{"examples/kinds/advancedcronjob/schedule", free, "reason"}, // computes times only
		{"examples/kinds/advancedcronjob", free, "KIT examples/admission examples/apis/... examples/kind examples/kinds/advancedcronjob/schedule examples/kruise/..."},
		{"examples/kinds/nodeimage/onnode", pure, "completion examples/apis/... node/imagepull"}, // terms of NodeImages
		{"examples/daemon/served", free, "node/agent reason"},                                    // objects for an agent, in any version
		{"examples/kinds/nodepodprobe/onnode", free, "KIT node/... examples/apis/... examples/daemon/served examples/kruise/probes"},
		{"examples/kinds/containerrecreaterequest/onnode", free, "KIT node/... examples/apis/... examples/daemon/served"},                                           // a kind's part in a node agent
		{"examples/workloads", free, "KIT examples/apis/..."},                                                                                                       // of all kinds, also those that users list
		{"examples/kinds/*", free, "KIT examples/admission examples/apis/... examples/kind examples/kinds/nodeimage/onnode examples/kruise/... examples/workloads"}, // no kind imports another
		{"examples/controllers/launchpriority", free, "KIT examples/launchorder examples/kruise"},
		{"examples/controllers/*", free, "KIT examples/apis/... examples/kruise"}, // controllers of Pods without a kind of the API
		{"examples/admission", free, "decode examples/apis/... podstate reason sidecarcontrol/podwebhook"},
		{"examples/admission/admissiontest", free, "examples/admission"},                                                    // only for tests
		{"examples/embed/...", free, "KIT examples/embed/..."},                                                              // no OpenKruise types
		{"examples/kind", free, "KIT examples/admission examples/apis/... examples/kruise/..."},                             // the type of a row
		{"examples/kinds", free, "examples/apis/... examples/controllers/* examples/kind examples/kinds/* examples/kruise"}, // all rows
		{"examples/manager", free, "KIT examples/admission examples/apis/... examples/kind examples/kinds examples/kruise"},
		{"examples/storagemigration", free, ""}, // for objects of any CRD
		{"examples/daemon/images", free, "KIT node/... examples/apis/... examples/daemon/served examples/kinds/nodeimage/onnode"},
		{"examples/daemon", free, "KIT node/... examples/apis/... examples/daemon/images examples/kinds/containerrecreaterequest/onnode examples/kinds/nodepodprobe/onnode"},
		{"examples/cmd/kruise-daemon", free, "examples/daemon node/imagepull"},
		{"examples/cmd/...", free, "examples/kind examples/kinds examples/manager examples/storagemigration"},
		{"examples/config", free, "testing/install"},
		{"examples/cli/fields", pure, ""},
		{"examples/cli/facts", pure, "examples/cli/fields"},
		{"examples/cli/progress", pure, "examples/cli/facts examples/cli/fields reason rollout/partition"},
		{"examples/cli/operate", free, "examples/cli/fields"},
		{"examples/cli/mergepatch", free, ""},
		{"examples/cli/output", free, ""},
		{"examples/cli/seams", free, "examples/apis/... examples/cli/facts examples/cli/fields"},
		{"examples/cli/cause", pure, "examples/apis/... examples/cli/facts examples/cli/fields examples/cli/progress pvc reason"},
		{"examples/cli/forecast", pure, "examples/apis/... examples/cli/cause examples/cli/fields examples/cli/progress ordinals podstate reason"},
		{"examples/cli/foresee", free, "KIT examples/admission examples/apis/... examples/cli/forecast examples/controllers/podreadiness examples/kind examples/kinds/* examples/kruise examples/workloads testing/faultapi testing/rehearsal"}, // all controllers of a preview
		{"examples/cli/...", free, "examples/apis/... examples/cli/... reason rollout/partition"}, // imports no controller
		{"examples/internal/hostile", free, "examples/apis/..."},
		{"examples/internal/manifests", free, "examples/admission examples/kind examples/kinds"}, // manifests generated from the rows
		{"examples/internal/served", free, "examples/config examples/manager testing/..."},       // common part of hostile and bench
		{"examples/internal/...", free, ""},
		{"examples/...", free, "KIT examples/... testing/..."},
	}
}

// modules returns the other modules that packages of the kind may import.
func (k kind) modules() []string {
	switch k {
	case pure:
		return []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/utils", "github.com/evanphx/json-patch/v5"}
	case types:
		return []string{"k8s.io/api", "k8s.io/apimachinery"}
	default:
		return append(pure.modules(), "k8s.io/client-go", "k8s.io/apiextensions-apiserver", "sigs.k8s.io/controller-runtime", "github.com/go-logr/logr")
	}
}

// outside lists the standard packages with effects or inputs that a decision must not have.
const outside = "context crypto/rand flag log log/slog math/rand math/rand/v2 net/http os os/exec os/signal syscall"

const module = "github.com/workloadkit/workloadkit"

func TestLayers(t *testing.T) {
	imports, err := importsBelow(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, whole := imports["examples/manager"]; !whole {
		t.Skip("the other modules are not here: this is the kit alone")
	}
	for _, problem := range violations(layers(), imports) {
		t.Error(problem)
	}
}

// importsBelow returns the imports of each package below a directory, except test imports, by the package's path from
// the directory.
func importsBelow(root string) (map[string][]string, error) {
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(root, file, entry.Name())
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		name := filepath.ToSlash(dir)
		all[name] = append(all[name], "") // an entry even for a package without imports
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all[name] = append(all[name], imported)
		}
		return nil
	})
	for name, imported := range all {
		slices.Sort(imported)
		all[name] = slices.Compact(imported)[1:]
	}
	return all, err
}

// enter returns filepath.SkipDir for directories without packages of the repository: modules that build binaries,
// test data and other files.
func enter(root, dir, name string) error {
	if dir == root {
		return nil
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	own := slices.Contains([]string{"node", "testing", "testing/fakecri", "examples", "examples/apis", "examples/cli"}, filepath.ToSlash(dir))
	if name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || err == nil && !own {
		return fs.SkipDir
	}
	return nil
}

// violations returns the imports that the table does not allow, and the faults of the table itself.
func violations(table []layer, imports map[string][]string) []string {
	var problems []string
	problemf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	used := map[string]bool{}
	for name, imported := range imports {
		row, found := rowOf(table, name)
		if !found {
			problemf("%s has no row in layers(): add one that says what it may import", name)
			continue
		}
		used[row.packages] = true
		for _, what := range imported {
			if !row.allows(table, name, what) {
				problemf("%s imports %s, which its row of layers(), %q, does not allow", name, strings.TrimPrefix(what, module+"/"), row.packages)
			}
		}
	}
	var above []string
	for _, row := range table {
		if !used[row.packages] {
			problemf("layers() has a row for %s, where no package is", row.packages)
		}
		if row.isKit() {
			for below := range strings.FieldsSeq(row.imports) {
				if !slices.Contains(above, below) && !slices.Contains(strings.Fields(outside), below) {
					problemf("the row of %s in layers() names %s, which stands below it or nowhere", row.packages, below)
				}
			}
			above = append(above, row.packages)
		}
	}
	slices.Sort(problems)
	return problems
}

func rowOf(table []layer, name string) (layer, bool) {
	i := slices.IndexFunc(table, func(l layer) bool { return fits(l.packages, name) })
	if i < 0 {
		return layer{}, false
	}
	return table[i], true
}

// isKit reports whether a row belongs to the kit, and not to the tests or examples.
func (l layer) isKit() bool {
	first, _, _ := strings.Cut(l.packages, "/")
	return first != "testing" && first != "examples"
}

// allows reports whether a package of the row may import another package.
func (l layer) allows(table []layer, name, imported string) bool {
	named := strings.Fields(l.imports)
	if own, ours := strings.CutPrefix(imported, module+"/"); ours {
		if internal, _, below := strings.Cut(own, "/internal/"); below && strings.HasPrefix(name+"/", internal+"/") {
			return true // an internal package of a folder is open to all packages of the folder
		}
		row, known := rowOf(table, own)
		return slices.ContainsFunc(named, func(pattern string) bool {
			return fits(pattern, own) || pattern == "KIT" && known && row.isKit()
		})
	}
	if l.kind == free {
		return imported != module
	}
	host, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(host, ".") { // a package of the standard library
		return l.kind == acting || !slices.Contains(strings.Fields(outside), imported) || slices.Contains(named, imported)
	}
	return slices.ContainsFunc(l.kind.modules(), func(m string) bool { return fits(m+"/...", imported) })
}

func fits(pattern, name string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == above || strings.HasPrefix(name, above+"/")
	}
	if above, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(name) == above
	}
	return name == pattern
}

func TestViolations(t *testing.T) {
	table := []layer{
		{"low", pure, ""},
		{"high", pure, "low"},
		{"high/send", acting, "high"},
		{"examples/kinds/*", free, "KIT examples/shared/..."},
		{"examples/shared/...", types, ""},
	}
	fine := map[string][]string{
		"low":                  {"k8s.io/api/core/v1", "time"},
		"high":                 {module + "/low", module + "/high/internal/plan", "k8s.io/utils/ptr"},
		"high/send":            {module + "/high", "context", "sigs.k8s.io/controller-runtime/pkg/client", module + "/high/internal/plan"},
		"examples/kinds/a":     {module + "/high/send", module + "/examples/shared/v1", "github.com/spf13/cobra"},
		"examples/shared/v1":   {"k8s.io/apimachinery/pkg/runtime"},
		"examples/shared/v1/x": nil,
	}
	same := func(map[string][]string) {}
	imports := func(name, imported string) func(map[string][]string) {
		return func(m map[string][]string) { m[name] = []string{imported} }
	}
	tests := []struct {
		name   string
		change func(map[string][]string)
		table  []layer
		want   []string
	}{
		{"nothing", same, table, nil},
		{"up", imports("low", module+"/high"), table, []string{`low imports high, which its row of layers(), "low", does not allow`}},
		{
			"to the side", imports("examples/kinds/a", module+"/examples/kinds/b"), table,
			[]string{`examples/kinds/a imports examples/kinds/b, which its row of layers(), "examples/kinds/*", does not allow`},
		},
		{"the kit as a whole", imports("examples/kinds/a", module), table, []string{`examples/kinds/a imports ` + module + `, which its row of layers(), "examples/kinds/*", does not allow`}},
		{
			"a client in a deciding half", imports("low", "k8s.io/client-go/rest"), table,
			[]string{`low imports k8s.io/client-go/rest, which its row of layers(), "low", does not allow`},
		},
		{
			"a module whose name begins like one that is allowed", imports("low", "k8s.io/apiserver/pkg/x"), table,
			[]string{`low imports k8s.io/apiserver/pkg/x, which its row of layers(), "low", does not allow`},
		},
		{
			"randomness in a deciding half", imports("high", "math/rand/v2"), table,
			[]string{`high imports math/rand/v2, which its row of layers(), "high", does not allow`},
		},
		{"randomness that the row allows", imports("low", "math/rand/v2"), slices.Concat([]layer{{"low", pure, "math/rand/v2"}}, table[1:]), nil},
		{
			"a heavy module in an acting half", imports("high/send", "github.com/spf13/cobra"), table,
			[]string{`high/send imports github.com/spf13/cobra, which its row of layers(), "high/send", does not allow`},
		},
		{
			"what is internal to others", imports("low", module+"/high/internal/plan"), table,
			[]string{`low imports high/internal/plan, which its row of layers(), "low", does not allow`},
		},
		{
			"more than types need", imports("examples/shared/v1", "k8s.io/utils/ptr"), table,
			[]string{`examples/shared/v1 imports k8s.io/utils/ptr, which its row of layers(), "examples/shared/...", does not allow`},
		},
		{"a package without a row", imports("new", "time"), table, []string{"new has no row in layers(): add one that says what it may import"}},
		{"a row without a package", same, slices.Concat(table, []layer{{"old", pure, ""}}), []string{"layers() has a row for old, where no package is"}},
		{
			"a row that names one below", same, slices.Concat([]layer{table[1], table[0]}, table[2:]),
			[]string{"the row of high in layers() names low, which stands below it or nowhere"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := maps.Clone(fine)
			tt.change(all)
			if diff := cmp.Diff(tt.want, violations(tt.table, all)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
