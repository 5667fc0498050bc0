// AWS Trainium and Inferentia through the Neuron plugin. Its caps are the conservative ones: nothing here has been
// measured on the hardware beyond what its documentation states.
#include "pjrt/platform.h"

namespace torchport::devices {

DEVICE("neuron"){
    .plugin = {"env:NEURON_LIBRARY_PATH", "python:libneuronxla/libneuronpjrt.so"},
    .present = [] { return pjrt::any_exists({"/dev/neuron0"}); },
    .priority = 250,
    .caps = {.in_order = true},
    .install = "pip install libneuronxla --extra-index-url https://pip.repos.neuron.amazonaws.com",
};

}  // namespace torchport::devices
