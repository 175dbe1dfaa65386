// Package migrate has the command that moves replicas from a Deployment to a CloneSet. [Next] decides each step.
package migrate

// Counts are the numbers of a move in progress. All numbers are of Pods.
type Counts struct {
	// Total is how many replicas move in all.
	Total int64
	// Added is by how many the CloneSet has grown, and Removed by how many the Deployment has shrunk.
	Added, Removed int64
	// Source is the Deployment's present number of replicas.
	Source int64
	// MaxSurge is how many more Pods than before there may be; at least 1.
	MaxSurge int64
	// IsAvailable says that all Pods of the CloneSet are available.
	IsAvailable bool
}

// Step is the next change of the two workloads; a zero Step waits.
type Step struct {
	// Add grows the CloneSet, and Remove shrinks the Deployment. At most one of the two is above 0.
	Add, Remove int64
	// Done says that all replicas have moved.
	Done bool
}

// Next returns the next step. The CloneSet grows first, within the surge, and the Deployment shrinks by what has grown
// and is available. Next is pure and safe for concurrent use.
func Next(c Counts) Step {
	surge := max(c.MaxSurge, 1)
	if add := min(surge-(c.Added-c.Removed), c.Total-c.Added); add > 0 {
		return Step{Add: add}
	}
	if !c.IsAvailable {
		return Step{}
	}
	if remove := min(c.Source, c.Total-c.Removed, c.Added-c.Removed); remove > 0 {
		return Step{Remove: remove}
	}
	return Step{Done: c.Removed >= c.Total || c.Source == 0 && c.Added >= c.Total}
}
