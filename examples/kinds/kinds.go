// Package kinds contains the table of all kinds of the manager; each row of the table describes a kind. Each kind has
// a folder below this package, with the row and the remaining code of the kind, and a line in [All].
package kinds

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/kinds/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/kinds/cloneset"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/kinds/daemonset"
	"github.com/workloadkit/workloadkit/examples/kinds/ephemeraljob"
	"github.com/workloadkit/workloadkit/examples/kinds/imagelistpulljob"
	"github.com/workloadkit/workloadkit/examples/kinds/imagepulljob"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage"
	"github.com/workloadkit/workloadkit/examples/kinds/nodepodprobe"
	"github.com/workloadkit/workloadkit/examples/kinds/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/kinds/podprobemarker"
	"github.com/workloadkit/workloadkit/examples/kinds/podunavailablebudget"
	"github.com/workloadkit/workloadkit/examples/kinds/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/kinds/sidecarset"
	"github.com/workloadkit/workloadkit/examples/kinds/statefulset"
	"github.com/workloadkit/workloadkit/examples/kinds/uniteddeployment"
	"github.com/workloadkit/workloadkit/examples/kinds/workloadspread"
)

// All returns the rows of all kinds, in the order in which the manager starts the controllers and calls the steps of
// the Pod webhook.
func All() []kind.Row {
	return []kind.Row{
		cloneset.Row(),
		statefulset.Row(),
		daemonset.Row(),
		// WorkloadSpread comes before SidecarSet, because patches of a WorkloadSpread apply to the Pod as created by
		// the workload.
		workloadspread.Row(),
		sidecarset.Row(),
		containerrecreaterequest.Row(),
		resourcedistribution.Row(),
		broadcastjob.Row(),
		advancedcronjob.Row(),
		persistentpodstate.Row(),
		podunavailablebudget.Row(),
		uniteddeployment.Row(),
		ephemeraljob.Row(),
		nodeimage.Row(),
		imagepulljob.Row(),
		imagelistpulljob.Row(),
		podprobemarker.Row(),
		nodepodprobe.Row(),
	}
}

// Measured returns the rows of [All] with a Sample, that is, the kinds whose controllers package bench can measure.
func Measured() []kind.Row {
	return slices.DeleteFunc(All(), func(r kind.Row) bool { return !r.IsMeasured() })
}

// AddToScheme registers the types of all kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, r := range All() {
		if err := r.AddToScheme(scheme); err != nil {
			return fmt.Errorf("registering %s: %w", r.Kind, err)
		}
	}
	return nil
}
