package v1beta1

import "github.com/workloadkit/workloadkit/decode"

// UnmarshalJSON reads any spec, even with invalid fields: no schema checks templates, or limits integers and
// percentages to 32 bits, and a list of CloneSets must not fail for a single item. The invalid fields are in
// Undecodable.
func (s *CloneSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain CloneSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s CloneSetSpec) MarshalJSON() ([]byte, error) {
	type plain CloneSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *StatefulSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain StatefulSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s StatefulSetSpec) MarshalJSON() ([]byte, error) {
	type plain StatefulSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields: the schema accepts times unknown to Go, such as a time with a
// small t. The next write of the status corrects the fields.
func (s *CloneSetStatus) UnmarshalJSON(data []byte) error {
	type plain CloneSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *StatefulSetStatus) UnmarshalJSON(data []byte) error {
	type plain StatefulSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *DaemonSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain DaemonSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s DaemonSetSpec) MarshalJSON() ([]byte, error) {
	type plain DaemonSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *DaemonSetStatus) UnmarshalJSON(data []byte) error {
	type plain DaemonSetStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *SidecarSetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain SidecarSetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s SidecarSetSpec) MarshalJSON() ([]byte, error) {
	type plain SidecarSetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *BroadcastJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain BroadcastJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s BroadcastJobSpec) MarshalJSON() ([]byte, error) {
	type plain BroadcastJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *BroadcastJobStatus) UnmarshalJSON(data []byte) error {
	type plain BroadcastJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *AdvancedCronJobSpec) UnmarshalJSON(data []byte) (err error) {
	type plain AdvancedCronJobSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	if broadcast := s.Template.BroadcastJobTemplate; err == nil && broadcast != nil {
		for _, problem := range broadcast.Spec.Undecodable {
			problem.Path = "spec.template.broadcastJobTemplate." + problem.Path
			s.Undecodable = append(s.Undecodable, problem)
		}
	}
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s AdvancedCronJobSpec) MarshalJSON() ([]byte, error) {
	type plain AdvancedCronJobSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *AdvancedCronJobStatus) UnmarshalJSON(data []byte) error {
	type plain AdvancedCronJobStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *ResourceDistributionSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ResourceDistributionSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s ResourceDistributionSpec) MarshalJSON() ([]byte, error) {
	type plain ResourceDistributionSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *ResourceDistributionStatus) UnmarshalJSON(data []byte) error {
	type plain ResourceDistributionStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *PersistentPodStateSpec) UnmarshalJSON(data []byte) (err error) {
	type plain PersistentPodStateSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s PersistentPodStateSpec) MarshalJSON() ([]byte, error) {
	type plain PersistentPodStateSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *PersistentPodStateStatus) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *ContainerRecreateRequestSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ContainerRecreateRequestSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s ContainerRecreateRequestSpec) MarshalJSON() ([]byte, error) {
	type plain ContainerRecreateRequestSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads a status without invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *ContainerRecreateRequestStatus) UnmarshalJSON(data []byte) error {
	type plain ContainerRecreateRequestStatus
	_, err := decode.Fields(data, (*plain)(s), "status")
	return err
}
