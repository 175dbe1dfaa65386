// Package migrate has the command that moves replicas from a Deployment to a CloneSet. [Next] decides each step.
package migrate

// Counts are the numbers of a move in progress. All numbers are of Pods.
type Counts struct {
	// Total is the number of replicas to move.
	Total int64
	// Added is the number of replicas added to the CloneSet so far. Removed is the number of replicas removed from
	// the Deployment so far.
	Added, Removed int64
	// Source is the Deployment's present number of replicas.
	Source int64
	// MaxSurge is the largest number of Pods in addition to the original number; less than 1 counts as 1.
	MaxSurge int64
	// IsAvailable means that all Pods of the CloneSet are available.
	IsAvailable bool
}

// Step is the next change of the two workloads. The zero Step means to wait.
type Step struct {
	// Add is the number of replicas to add to the CloneSet. Remove is the number of replicas to remove from the
	// Deployment. At most one number is above 0.
	Add, Remove int64
	// Done means that all replicas have moved.
	Done bool
}

// Next returns the next step. Replicas are added to the CloneSet first, within MaxSurge. When the added Pods are
// available, the same number of replicas is removed from the Deployment. Next is pure and safe for concurrent use.
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
