package executor

import corev1 "k8s.io/api/core/v1"

// IsUnfinished reports whether a change of its owner's spec enqueues a Pod.
func (x *Executor[O]) IsUnfinished(pod *corev1.Pod) bool { return x.isUnfinished(pod) }
