#include "fovea/attention.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <map>
#include <mutex>
#include <optional>

#include "bindings.h"
#include "request.h"

namespace fovea::python {
namespace {

// What one call gives, as arrays of the caller's layout.
nb::tuple arrays_of(const Request& request, const AttentionResult& result) {
  return nb::make_tuple(request.array(request.transposed(result.output.value())),
                        request.array(request.transposed(result.lse.value())),
                        request.array(result.final_state.value()));
}

nb::tuple attend(nb::handle q, nb::handle k, nb::handle v, const Mechanism& mechanism, const nb::dict& options) {
  const Request request = read_request(q, k, v, options);
  AttentionResult result;
  {
    const auto context = request.context();
    const Running running;
    Turn turn(context->memory(), request.home.place);
    Tape tape(*context, {.record = false, .training = request.training, .stream = request.stream});
    result = attention(tape, request.q, request.k, request.v, mechanism, request.resolved(tape));
    turn.end();
  }
  return arrays_of(request, result);
}

// A call that remembers what its gradient needs.
class Recorded {
 public:
  Recorded(Request request, const Mechanism& mechanism)
      : request_(std::move(request)),
        context_(request_.context()),
        tape_(*context_, {.training = request_.training, .stream = request_.stream}) {
    request_.want_gradients();
    const Running running;
    Turn turn(context_->memory(), request_.home.place);
    result_ = attention(tape_, request_.q, request_.k, request_.v, mechanism, request_.resolved(tape_));
    turn.end();
  }

  bool used() const { return used_; }
  nb::tuple arrays() const { return arrays_of(request_, result_); }

  // Gradients by name, from those of the three results, any of which may be None. Once only: the tape is used up.
  // `stream`: that of the caller now, on a card.
  nb::dict backward(nb::handle output, nb::handle lse, nb::handle final_state, Stream stream) {
    request_.home.place.stream = stream;
    if (used_) throw nb::value_error("the gradient of this call was taken already; record it again");
    used_ = true;
    std::vector<Var> outputs;
    std::vector<Tensor> seeds;
    const auto add = [&](nb::handle grad, const Var& value, const char* name, bool transposes) {
      if (grad.is_none()) return;
      const Tensor given = request_.tensor(grad, name), seed = transposes ? request_.transposed(given) : given;
      check_like(seed, value, name);
      outputs.push_back(value);
      seeds.push_back(seed);
    };
    add(output, result_.output, "grad", true);
    add(lse, result_.lse, "grad_lse", true);
    add(final_state, result_.final_state, "grad_final_state", false);
    std::optional<Turn> turn;
    {
      const Running running;  // also while the card is waited for: it may wait for a thread of Python
      turn.emplace(context_->memory(), request_.home.place);
      tape_.backward(outputs, seeds);
    }
    nb::dict found = request_.gradients(*context_);
    const Running running;
    turn->end();
    return found;
  }

 private:
  Request request_;
  std::shared_ptr<Context> context_;
  Tape tape_;
  AttentionResult result_;
  bool used_ = false;
};

std::shared_ptr<Recorded> record(nb::handle q, nb::handle k, nb::handle v, const Mechanism& mechanism,
                                 const nb::dict& options) {
  return std::make_shared<Recorded>(read_request(q, k, v, options), mechanism);
}

// Recorded calls, each by the address of a byte. An array of that byte can travel where only arrays can, through a
// graph that PyTorch has compiled; the call is forgotten with it.
class Tickets {
 public:
  static nb::object issue(std::shared_ptr<Recorded> recorded) {
    auto* const byte = new std::uint8_t(0);
    {
      const std::lock_guard lock(mutex());
      table()[byte] = std::move(recorded);
    }
    const nb::capsule owner(byte, [](void* place) noexcept { withdraw(static_cast<std::uint8_t*>(place)); });
    const std::size_t shape[] = {1};
    return nb::cast(
        nb::ndarray<std::uint8_t>(byte, 1, shape, owner, nullptr, nb::dtype<std::uint8_t>(), nb::device::cpu::value));
  }

  // Null when the address is no ticket: a copy of one, for example.
  static std::shared_ptr<Recorded> find(std::uintptr_t address) {
    const std::lock_guard lock(mutex());
    const auto it = table().find(reinterpret_cast<std::uint8_t*>(address));
    return it == table().end() ? nullptr : it->second;
  }

 private:
  static void withdraw(std::uint8_t* byte) {
    std::shared_ptr<Recorded> last;  // let go after the lock
    {
      const std::lock_guard lock(mutex());
      last = std::move(table()[byte]);
      table().erase(byte);
    }
    delete byte;
  }
  static std::mutex& mutex() {
    static auto* const mutex = new std::mutex;
    return *mutex;
  }
  static std::map<std::uint8_t*, std::shared_ptr<Recorded>>& table() {
    static auto* const table = new std::map<std::uint8_t*, std::shared_ptr<Recorded>>;
    return *table;
  }
};

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention", attend);
  nb::class_<Recorded>(module, "Recorded")
      .def("arrays", &Recorded::arrays)
      .def_prop_ro("used", &Recorded::used)
      .def("backward", &Recorded::backward, nb::arg("output").none(), nb::arg("lse").none(),
           nb::arg("final_state").none(), nb::arg("stream") = 0);
  module.def("record", record);
  module.def("issue_ticket", Tickets::issue);
  module.def("find_ticket", Tickets::find);
}

}  // namespace fovea::python
